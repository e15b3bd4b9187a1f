package main

import (
	"github.com/spf13/cobra"

	"lockstep/node/host"
	"lockstep/node/namesrv"
)

func newNamesrv(l *logging) *cobra.Command {
	return daemon(l, "namesrv", "Run a name server", `Run a name server. Name servers do not know each other; give clients and brokers
the addresses of all of them.

A minimal file:
  listenPort=9876`, loadNamesrv)
}

func loadNamesrv(c *conf, f *confFlags) (unit, []string, error) {
	p := process{ListenPort: 9876, BindAddress: "0.0.0.0", ServerChannelMaxIdleTimeSeconds: host.DefaultIdle}
	o := namesrv.DefaultOptions()
	c.bind(&p)
	c.bind(&o)
	p.check(c)
	c.adminApart(&p)
	p.ListenPort = orDefault(p.ListenPort, 9876)
	if !c.file.Has("listenAddr") {
		o.ListenAddr = p.bind(p.ListenPort)
	}
	c.refuse("enableControllerInNamesrv", "true", "controllers are processes of their own here: run lockstep controller beside the name server")
	c.noEffect("kvConfigPath", "the KV configuration lives in memory; put it again after a restart")
	refuseAccessControl(c)
	c.problem(o.Validate())
	u := unit{name: "namesrv " + o.ListenAddr, phase: "about to listen", admin: p.admin(), idle: p.ServerChannelMaxIdleTimeSeconds,
		open: func() (opened, error) {
			m, err := namesrv.New(o)
			return opened{machine: m}, err
		}}
	return u, effective(nil, &p, &o), c.finish(f.allowUnknown)
}

// refuseAccessControl stops a start that would leave open what the file protects.
func refuseAccessControl(c *conf) {
	for _, key := range []string{"aclEnable", "authenticationEnabled", "authorizationEnabled", "migrateAuthFromV1Enabled"} {
		c.refuse(key, "true", "this version has no access control: everybody could do everything; protect the ports otherwise and remove the line")
	}
	c.refuse("useTLS", "true", "this version has no TLS: all would travel in the clear; protect the network otherwise and remove the line")
}
