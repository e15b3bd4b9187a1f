package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// shape is how many nodes of each kind a local cluster has.
type shape struct {
	Groups      int `json:"groups"`
	Replicas    int `json:"replicas"`
	Controllers int `json:"controllers"`
	Namesrvs    int `json:"namesrvs"`
}

// Limits of a local cluster: it is for one machine.
const (
	maxLocalGroups = 8
	maxLocalNodes  = 9 // replicas of a group, controllers, name servers
)

func (s shape) check() error {
	var errs []error
	for _, f := range []struct {
		flag string
		v, n int
	}{{"--groups", s.Groups, maxLocalGroups}, {"--replicas", s.Replicas, maxLocalNodes}, {"--controllers", s.Controllers, maxLocalNodes}, {"--namesrvs", s.Namesrvs, maxLocalNodes}} {
		if f.v < 1 || f.v > f.n {
			errs = append(errs, fmt.Errorf("%s %d: 1 to %d", f.flag, f.v, f.n))
		}
	}
	if s.Controllers > 0 && s.Controllers%2 == 0 {
		errs = append(errs, fmt.Errorf("--controllers %d: an even number survives no more failures than %d; give 1, 3 or 5", s.Controllers, s.Controllers-1))
	}
	return errors.Join(errs...)
}

// localNode is one process of a local cluster.
type localNode struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group,omitempty"`
	// Ports: remoting, then the second one that brokers (replication) and controllers
	// (raft) have, then admin.
	Port   int `json:"port"`
	Second int `json:"second,omitempty"`
	Admin  int `json:"admin"`
}

// plan is a local cluster as it is kept in its directory, so that a restart finds
// the same nodes at the same ports.
type plan struct {
	shape
	// Unready says that the cluster has never taken writes: its ports may still change.
	Unready bool         `json:"unready,omitempty"`
	Nodes   []*localNode `json:"nodes"`
	dir     string
	moved   bool // its ports changed: configuration files with the old ones are written anew
}

const (
	planFile  = "cluster.json"
	localHost = "127.0.0.1"
)

// newPlan names the nodes and gives them consecutive ports from base.
func newPlan(s shape, base int) *plan {
	p := &plan{shape: s}
	next := base
	port := func() int { next++; return next - 1 }
	add := func(kind, name, group string) {
		n := &localNode{Name: name, Kind: kind, Group: group, Port: port()}
		if kind != "namesrv" {
			n.Second = port()
		}
		n.Admin = port()
		p.Nodes = append(p.Nodes, n)
	}
	for i := range s.Namesrvs {
		add("namesrv", fmt.Sprintf("namesrv-%d", i), "")
	}
	for i := range s.Controllers {
		add("controller", fmt.Sprintf("controller-n%d", i), "")
	}
	for g := range s.Groups {
		group := "broker-" + string(rune('a'+g))
		for i := range s.Replicas {
			add("broker", fmt.Sprintf("%s-%d", group, i), group)
		}
	}
	return p
}

// openPlan reads the directory's plan, or makes one. Nothing is kept of a plan whose
// ports are taken.
func openPlan(dir string, s shape, base int) (*plan, error) {
	p, err := readPlan(dir, s)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		p, err = makePlan(dir, s, base)
	case p.Unready && (base != 0 && base != p.Nodes[0].Port || base == 0 && p.checkPorts() != nil):
		if p, err = makePlan(dir, s, base); err == nil {
			p.moved = true
		}
	case base != 0 && base != p.Nodes[0].Port:
		err = fmt.Errorf("%s holds a cluster whose ports begin at %d: leave --port-base away, or give another --data directory", dir, p.Nodes[0].Port)
	}
	if err != nil {
		return nil, err
	}
	if err := p.checkPorts(); err != nil {
		return nil, err
	}
	if p.Unready {
		err = p.write()
	}
	return p, err
}

// readPlan is the directory's plan, nil when it has none.
func readPlan(dir string, s shape) (*plan, error) {
	path := filepath.Join(dir, planFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster's plan: %w", err)
	}
	p := &plan{dir: dir}
	if err := json.Unmarshal(text, p); err != nil || len(p.Nodes) == 0 {
		return nil, fmt.Errorf("%s is not a cluster's plan (%v): give another --data directory, or remove this one", path, err)
	}
	if p.shape != s {
		return nil, fmt.Errorf("%s holds a cluster of %d groups of %d replicas, %d controllers and %d name servers: start it with these numbers, or give another --data directory",
			dir, p.Groups, p.Replicas, p.Controllers, p.Namesrvs)
	}
	return p, nil
}

// makePlan is a new cluster's plan.
func makePlan(dir string, s shape, base int) (*plan, error) {
	p := newPlan(s, max(base, 1))
	if base == 0 {
		free, err := freeBlock(p.ports())
		if err != nil {
			return nil, err
		}
		p = newPlan(s, free)
	} else if base+p.ports() > 65536 {
		return nil, fmt.Errorf("--port-base %d: the cluster needs %d ports from there, the last would be above 65535", base, p.ports())
	}
	p.dir, p.Unready = dir, true
	return p, nil
}

// pin keeps the ports for good, once the cluster was usable at them.
func (p *plan) pin() error {
	if !p.Unready {
		return nil
	}
	p.Unready = false
	return p.write()
}

// write replaces the directory's plan.
func (p *plan) write() error {
	text, err := json.MarshalIndent(p, "", "  ")
	path := filepath.Join(p.dir, planFile)
	if err == nil {
		err = os.WriteFile(path+".new", append(text, '\n'), 0o640)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write the cluster's plan: %w", err)
	}
	return nil
}

// checkPorts binds every port of the plan for a moment. A taken one must be found
// before any process starts: another cluster there would answer for this one.
func (p *plan) checkPorts() error {
	var errs []error
	for _, n := range p.Nodes {
		second := "haListenPort"
		if n.Kind == "controller" {
			second = "raft port"
		}
		for _, use := range []struct {
			key  string
			port int
		}{{"listenPort", n.Port}, {second, n.Second}, {"adminPort", n.Admin}} {
			if use.port == 0 {
				continue
			}
			if err := portFree(use.port); err != nil {
				errs = append(errs, fmt.Errorf("the %s of %s is taken: %w", use.key, n.Name, err))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	remedy := "choose free ports with --port-base, or leave it away; if the cluster there is the one you mean, give its --data directory"
	if !p.Unready {
		remedy = "stop what listens there, such as a node started by hand or another cluster; the ports of a cluster that has run stay, a new --data directory gets others"
	}
	return errors.Join(append(errs, errors.New(remedy))...)
}

// ports is how many consecutive ports the plan takes.
func (p *plan) ports() int {
	last := p.Nodes[len(p.Nodes)-1]
	return last.Admin - p.Nodes[0].Port + 1
}

// Ports of local clusters lie below those the system hands out to outgoing
// connections, which could take them between two starts.
const (
	lowestLocalPort  = 12_000
	highestLocalPort = 32_000
	blockTries       = 200
)

// freeBlock finds n consecutive ports that nobody listens on now.
func freeBlock(n int) (int, error) {
	for range blockTries {
		base := lowestLocalPort + rand.IntN(highestLocalPort-lowestLocalPort-n)
		if blockFree(base, n) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row between %d and %d: choose them with --port-base", n, lowestLocalPort, highestLocalPort)
}

func blockFree(base, n int) bool {
	for i := range n {
		if portFree(base+i) != nil {
			return false
		}
	}
	return true
}

// portFree says why a port cannot be listened on now.
func portFree(port int) error {
	ln, err := net.Listen("tcp", join(localHost, port))
	if err != nil {
		return err
	}
	return ln.Close() // it never accepted anything
}

// addrs are the remoting addresses of all nodes of a kind, or the second ones.
func (p *plan) addrs(kind string, second bool) []string {
	var out []string
	for _, n := range p.Nodes {
		switch {
		case n.Kind != kind:
		case second:
			out = append(out, join(localHost, n.Second))
		default:
			out = append(out, join(localHost, n.Port))
		}
	}
	return out
}

// confPath is a node's configuration file.
func (p *plan) confPath(n *localNode) string { return filepath.Join(p.dir, n.Name+".conf") }

// localSegment keeps a local cluster small: segments are allocated whole.
const localSegment = 64 << 20

// confText is a node's generated configuration file.
func (p *plan) confText(n *localNode) string {
	lines := []string{"# Written by lockstep up; edits are kept.", "bindAddress=" + localHost, fmt.Sprintf("listenPort=%d", n.Port), fmt.Sprintf("adminPort=%d", n.Admin)}
	switch n.Kind {
	case "namesrv": // brokers of this cluster register within a second of their start
		lines = append(lines, "waitSecondsForService=5")
	case "controller":
		var raft []string
		for i, a := range p.addrs("controller", true) {
			raft = append(raft, fmt.Sprintf("n%d-%s", i, a))
		}
		lines = append(lines, "controllerDLegerSelfId="+strings.TrimPrefix(n.Name, "controller-"), "controllerDLegerPeers="+strings.Join(raft, ";"),
			"controllerRPCAddrs="+strings.Join(p.addrs("controller", false), ";"), "controllerStorePath="+filepath.Join(p.dir, n.Name, "raft"), "initialiseControllers=true")
	case "broker":
		lines = append(lines, "brokerClusterName=LocalCluster", "brokerName="+n.Group, "brokerIP1="+localHost, fmt.Sprintf("haListenPort=%d", n.Second),
			"enableControllerMode=true", "controllerAddr="+strings.Join(p.addrs("controller", false), ";"), "namesrvAddr="+strings.Join(p.addrs("namesrv", false), ";"),
			"storePathRootDir="+filepath.Join(p.dir, n.Name, "store"), fmt.Sprintf("totalReplicas=%d", p.Replicas), fmt.Sprintf("mappedFileSizeCommitLog=%d", localSegment))
	}
	return strings.Join(lines, "\n") + "\n"
}

// writeConfs writes the configuration files that are missing, and all of them when
// the ports are no longer those of the files.
func (p *plan) writeConfs() error {
	how := os.O_EXCL
	if p.moved {
		how = os.O_TRUNC
	}
	for _, n := range p.Nodes {
		f, err := os.OpenFile(p.confPath(n), os.O_CREATE|os.O_WRONLY|how, 0o640)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.WriteString(p.confText(n))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("write the configuration of %s: %w", n.Name, err)
		}
	}
	return nil
}
