package maelstrom

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockstep/chaos/maelstrom/history"
	"lockstep/chaos/maelstrom/service"
)

// cluster is the nodes and services of a run on their network.
type cluster struct {
	o      *Options
	r      *router
	nodes  []*node
	closed chan struct{} // the run is over

	mu     sync.Mutex
	failed error // why the run ended before its time
	once   sync.Once
	work   sync.WaitGroup // receivers
}

func newCluster(o *Options, clock *history.Recorder, data string) *cluster {
	c := &cluster{o: o, r: newRouter(o, clock), closed: make(chan struct{})}
	for i := range o.NodeCount {
		n := &node{name: nodeName(i), index: i, o: o, r: c.r, fail: c.fail}
		n.place(data)
		c.nodes = append(c.nodes, n)
		b := c.r.attach(n.name)
		c.work.Go(func() { c.r.drain(b, c.closed, n.deliver) })
	}
	for _, name := range service.Names {
		s, b := service.New(name, o.Seed), c.r.attach(name)
		c.work.Go(func() { c.r.drain(b, c.closed, c.serve(name, s)) })
	}
	return c
}

// fail ends the run; the first reason stays.
func (c *cluster) fail(err error) {
	c.mu.Lock()
	if c.failed == nil {
		c.failed = err
	}
	c.mu.Unlock()
	c.once.Do(func() { close(c.closed) })
}

// failure is why the run ended early, or nil.
func (c *cluster) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *cluster) ended() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// serve answers a service's requests through the network.
func (c *cluster) serve(name string, s service.Service) func(m *Message, quiet bool) bool {
	return func(m *Message, _ bool) bool {
		if m == nil {
			return true
		}
		h, err := m.head()
		if err != nil || h.MsgID == nil || h.InReplyTo != nil {
			return true // nothing that could be answered
		}
		reply := s.Handle(m.Src, m.Body)
		reply["in_reply_to"] = *h.MsgID
		body, err := json.Marshal(reply)
		if err == nil {
			err = c.r.send(&Message{Src: name, Dest: m.Src, Body: body})
		}
		if err != nil {
			c.fail(fmt.Errorf("%s: %w", name, err))
		}
		return true
	}
}

// start starts all nodes and initialises them side by side.
func (c *cluster) start() error {
	for _, n := range c.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	return c.each(c.nodes, c.initialise)
}

// each does something for several nodes at once.
func (c *cluster) each(nodes []*node, do func(n *node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// initialise tells a node who it is, and for broadcast who its neighbours are. A
// node that was killed is told again when it is back, as at the start: other
// nodes' messages may reach it earlier, clients' requests do not.
func (c *cluster) initialise(n *node) error {
	client := c.r.open(c.closed)
	client.starts = true
	defer client.Close()
	var names []string
	for _, m := range c.nodes {
		names = append(names, m.name)
	}
	err := client.Call(n.name, initTimeout, map[string]any{"type": "init", "node_id": n.name, "node_ids": names}, nil)
	if err == nil && c.o.Workload == "broadcast" {
		err = client.Call(n.name, initTimeout, map[string]any{"type": "topology", "topology": Neighbours(c.o.Topology, c.o.NodeCount)}, nil)
	}
	if err != nil {
		return fmt.Errorf("initialise %s (its log is %s): %w", n.name, n.log, err)
	}
	n.ready.Store(true)
	return nil
}

// apply performs one act of the nemesis. A killed node that is started again is
// initialised before apply returns.
func (c *cluster) apply(a Act) error {
	switch a.Kind {
	case "partition":
		c.r.cut(a.Cuts)
	case "duplicate":
		c.r.double(a.Start)
	case "pause":
		for _, n := range c.nodes {
			if !a.Start || slices.Contains(a.Targets, n.index) {
				n.pause(a.Start)
			}
		}
	case "kill":
		if !a.Start {
			return c.restart()
		}
		for _, t := range a.Targets {
			c.nodes[t].kill()
		}
	}
	return nil
}

// restart starts every node that was killed.
func (c *cluster) restart() error {
	var dead []*node
	for _, n := range c.nodes {
		if !n.alive() {
			dead = append(dead, n)
		}
	}
	for _, n := range dead {
		if err := n.start(); err != nil {
			return err
		}
	}
	return c.each(dead, c.initialise)
}

// heal ends every fault.
func (c *cluster) heal() error {
	for _, kind := range []string{"partition", "duplicate", "pause", "kill"} {
		if c.o.has(kind) {
			if err := c.apply(Act{Kind: kind}); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop kills all nodes and waits for everything that runs.
func (c *cluster) stop() {
	c.once.Do(func() { close(c.closed) })
	c.r.close()
	for _, n := range c.nodes {
		n.kill()
	}
	c.work.Wait()
}
