package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/internal/ha"
	"lockstep/node/controller"
	"lockstep/node/host"
	"lockstep/storage/raftstore"
	"lockstep/storage/vfs"
)

func newController(l *logging) *cobra.Command {
	return daemon(l, "controller", "Run a controller", `Run a controller. Three controllers (or five) agree who is master of each broker
group; a majority of them must run. Each has two ports: one for brokers and
tools, one for the other controllers.

A minimal file, here of the first of three:
  controllerDLegerSelfId=n0
  controllerDLegerPeers=n0-10.0.0.1:9879;n1-10.0.0.2:9879;n2-10.0.0.3:9879
  controllerRPCAddrs=10.0.0.1:9878;10.0.0.2:9878;10.0.0.3:9878
  controllerStorePath=/var/lib/lockstep/controller
  initialiseControllers=true

controllerDLegerPeers has the ports between controllers. controllerRPCAddrs has
those for brokers, in the same order; brokers get them as controllerAddr.
initialiseControllers lets empty controllers begin a new cluster; it does nothing
once the cluster exists, and can be removed then.`, loadController)
}

// controllerStore is where a controller keeps its raft log.
type controllerStore struct {
	// ControllerStorePath is the directory of the raft log and snapshots.
	ControllerStorePath string `key:"controllerStorePath"`
	// ControllerStore is file, pebble or memory.
	ControllerStore string `key:"controllerStore"`
	// UnsafeMemoryStore confirms that a memory store may forget all votes.
	UnsafeMemoryStore bool `key:"unsafeMemoryStore"`
}

func loadController(c *conf, f *confFlags) (unit, []string, error) {
	p := process{BindAddress: "0.0.0.0", ServerChannelMaxIdleTimeSeconds: host.DefaultIdle}
	o, s := controller.DefaultOptions(), controllerStore{ControllerStore: raftstore.StoreFile}
	c.bind(&p)
	c.bind(&o)
	c.bind(&s)
	lines, listed := c.peers(&o)
	self := peerOf(&o)
	c.listenPort(&p, self)
	if s.ControllerStorePath == "" && s.ControllerStore != raftstore.StoreMemory {
		c.problemf("controllerStorePath is missing: name the directory for this controller's raft log")
	}
	path, err := absolute(s.ControllerStorePath)
	c.problem(err)
	c.refuse("controllerType", "jRaft", "Lockstep controllers only speak to each other; remove the line, and do not mix Java and Lockstep controllers in one list")
	c.groupLeases(&o)
	c.lease(o.LeaseDuration, o.WriteLease == controller.LeaseOff && len(o.GroupLeases) == 0)
	refuseAccessControl(c)
	if listed {
		c.problem(o.Validate())
	} else { // what is wrong with the list was said; that it is empty is no news
		c.problem(o.ValidateRest())
	}
	u := unit{name: "controller " + o.SelfID, phase: "the raft log is being opened", admin: p.admin(), idle: p.ServerChannelMaxIdleTimeSeconds,
		open: func() (opened, error) { return openController(o, s, path) }}
	return u, effective(lines, &p, &o, &s), c.finish(f.allowUnknown)
}

// peers reads the two lists of controller addresses, and reports whether they could
// be read.
func (c *conf) peers(o *controller.Options) (lines []string, ok bool) {
	raft, ok := c.take("controllerDLegerPeers", "controllerPeers")
	if !ok {
		c.problemf("controllerDLegerPeers is missing: list the controllers' raft addresses, such as n0-10.0.0.1:9879;n1-10.0.0.2:9879;n2-10.0.0.3:9879")
		return nil, false
	}
	addrs, ok := c.take("controllerRPCAddrs", "controllerAddr", "jRaftControllerRPCAddr")
	if !ok {
		c.problemf("controllerRPCAddrs is missing: list the addresses for brokers in the order of controllerDLegerPeers; they are not the raft addresses")
		return nil, false
	}
	peers, err := controller.ParsePeers(raft, strings.ReplaceAll(addrs, ",", ";"))
	c.problem(err)
	o.Peers = peers
	return []string{"controllerDLegerPeers=" + raft, "controllerRPCAddrs=" + addrs}, err == nil
}

// peerOf is this controller's entry.
func peerOf(o *controller.Options) controller.Peer {
	for _, p := range o.Peers {
		if p.Node == o.SelfID {
			return p
		}
	}
	return controller.Peer{}
}

// listenPort derives the port from the list, which is what others dial.
func (c *conf) listenPort(p *process, self controller.Peer) {
	_, port, err := net.SplitHostPort(self.Addr)
	n, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil {
		return // the list's own checks say so
	}
	if p.ListenPort != 0 && p.ListenPort != n {
		c.problemf("listenPort=%d contradicts controllerRPCAddrs, which gives this controller %s", p.ListenPort, self.Addr)
	}
	p.ListenPort = n
	p.check(c)
	_, raft, err := net.SplitHostPort(self.Raft)
	if n, err2 := strconv.Atoi(raft); err == nil && err2 == nil {
		c.adminApart(p, ownPort{"the raft port in controllerDLegerPeers", n})
	}
}

// groupLeases reads writeLeaseGroups, "broker-a=off;broker-b=required".
func (c *conf) groupLeases(o *controller.Options) {
	text, ok := c.take("writeLeaseGroups")
	if !ok {
		return
	}
	for part := range strings.SplitSeq(text, ";") {
		group, mode, _ := strings.Cut(strings.TrimSpace(part), "=")
		known := false
		for _, m := range []controller.LeaseMode{controller.LeaseRequired, controller.LeaseOffered, controller.LeaseOff} {
			if strings.EqualFold(mode, m.String()) {
				o.GroupLeases = append(o.GroupLeases, controller.GroupLease{Group: group, Mode: m})
				known = true
			}
		}
		if !known {
			c.problemf("writeLeaseGroups: %q is not group=required, group=offered or group=off", part)
		}
	}
}

func openController(o controller.Options, s controllerStore, path string) (opened, error) {
	if at, err := os.Stat(path); err == nil && !at.IsDir() && s.ControllerStore != raftstore.StoreMemory {
		return opened{}, fmt.Errorf("controllerStorePath %s is no directory: name one, which is made if it is missing", path)
	}
	id := make([]byte, 16)
	rand.Read(id) // never fails: it would end the process
	ro := raftstore.Options{Node: o.SelfID, NewStore: ha.StoreID(hex.EncodeToString(id)), UnsafeMemory: s.UnsafeMemoryStore, PebbleDir: path}
	store, rec, err := raftstore.Open(s.ControllerStore, vfs.OS(filepath.Dir(path)), filepath.Base(path), ro)
	if err != nil {
		return opened{}, fmt.Errorf("open controllerStorePath %s: %w", path, err)
	}
	m, err := controller.New(o, rec)
	if err != nil {
		store.Close() // the reason to end is err
		return opened{}, fmt.Errorf("store %s: %w", path, err)
	}
	return opened{m, store, store.Close}, nil
}
