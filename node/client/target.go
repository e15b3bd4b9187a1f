package client

import "lockstep/node"

// target is where a try goes; no address means that there is none now.
type target struct {
	broker, addr string
	queue        int32
}

// choose picks the target of the next try. Without one, wait is when to look
// again; a route's answer comes earlier by itself.
func (c *Client) choose(op *operation) (t target, wait node.Time) {
	r := c.routeOf(op.routeTopic())
	if r == nil {
		c.finish(op, "no room for another route (maxTopics)")
		return t, node.Never
	}
	if r.data == nil && r.info == nil {
		return c.chooseUnrouted(op, r)
	}
	switch op.kind {
	case OpSend:
		t, wait = c.chooseQueue(op, r)
	case OpCreateTopic:
		t, wait = c.chooseGroup(op, r)
	default:
		t, wait = c.chooseReplica(op, r)
	}
	if t.addr == "" {
		r.wanted = true // only another route can help, or time
	}
	return t, wait
}

// chooseUnrouted handles an operation whose topic has no route: it waits for one,
// takes the template's, or ends once all name servers agree that there is none.
func (c *Client) chooseUnrouted(op *operation, r *route) (target, node.Time) {
	if r.absentAt == 0 || r.absentAt < op.out.Started {
		r.wanted = true
		return target{}, node.Never
	}
	if op.kind != OpSend || !c.opt.CreateTopicIfAbsent || op.out.Topic == templateTopic {
		c.finish(op, "no such topic")
		return target{}, node.Never
	}
	tpl := c.routeOf(templateTopic)
	if tpl == nil || tpl.data == nil && tpl.absentAt >= op.out.Started {
		c.finish(op, "no such topic, and brokers create none (no route for "+templateTopic+")")
		return target{}, node.Never
	}
	if tpl.data == nil {
		tpl.wanted = true
		return target{}, node.Never
	}
	r.write = writable(tpl.data, newTopicQueues)
	return c.chooseQueue(op, r)
}

// chooseQueue picks the queue of a send: round robin over the writable queues,
// first among healthy brokers other than the last that failed, then among healthy
// ones, then among those whose pause is over. An address that still owes this send
// an answer is never sent a second copy.
func (c *Client) chooseQueue(op *operation, r *route) (target, node.Time) {
	wait := node.Never
	if op.fixed && r.beyond(op.out.Broker, op.out.Queue) {
		c.finish(op, "no such queue")
		return target{}, wait
	}
	for pass := range 3 {
		for i := range r.write {
			q := &r.write[(r.next+i)%len(r.write)]
			if op.fixed && (q.broker != op.out.Broker || q.id != op.out.Queue) || op.owed(q.addr) {
				continue
			}
			switch {
			case pass < 2 && c.health.avoided(q.addr, c.now.Mono), pass == 0 && q.broker == op.avoid:
				continue
			case c.health.retryAt(q.addr) > c.now.Mono:
				wait = min(wait, c.health.retryAt(q.addr))
				continue
			}
			r.next = (r.next + i + 1) % len(r.write)
			return target{q.broker, q.addr, q.id}, node.Never
		}
	}
	return target{}, wait
}

// beyond reports whether a group that can be written to has no such queue.
func (r *route) beyond(broker string, queue int32) bool {
	known := false
	for i := range r.write {
		if r.write[i].broker == broker {
			if r.write[i].id == queue {
				return false
			}
			known = true
		}
	}
	return known
}

// owed reports whether a try at addr may still be answered.
func (op *operation) owed(addr string) bool {
	for i := range op.out.Tries {
		if op.opaques[i] != 0 && op.out.Tries[i].Addr == addr {
			return true
		}
	}
	return false
}

// chooseReplica picks the broker of a request about one queue: the master, or
// for pulls the role that the broker suggested; without a master, the smallest
// slave may have the data.
func (c *Client) chooseReplica(op *operation, r *route) (target, node.Time) {
	addr := ""
	if op.kind == OpPull {
		addr = addrOf(r.data, op.out.Broker, op.from)
	}
	if addr == "" {
		addr = addrOf(r.data, op.out.Broker, masterRole)
	}
	if addr == "" && op.kind == OpPull {
		addr = c.leastSlave(r, op.out.Broker)
	}
	if addr == "" {
		return target{}, node.Never
	}
	if at := c.health.retryAt(addr); at > c.now.Mono {
		return target{}, at
	}
	return target{op.out.Broker, addr, op.out.Queue}, node.Never
}

func (c *Client) leastSlave(r *route, broker string) string {
	least, addr := int64(-1), ""
	for i := range r.data.BrokerDatas {
		b := &r.data.BrokerDatas[i]
		if b.BrokerName != broker {
			continue
		}
		for role, a := range b.BrokerAddrs { // tidy:unordered the minimum is the same in any order
			if least < 0 || role < least {
				least, addr = role, a
			}
		}
	}
	return addr
}

// chooseGroup picks the next group that a topic has to be created in.
func (c *Client) chooseGroup(op *operation, r *route) (target, node.Time) {
	wait := node.Never
	if r.learned < op.out.Started {
		return target{}, wait // a group that came since would be left out
	}
	for _, g := range op.create.remaining(r.info) {
		addr := r.info.BrokerAddrTable[g].BrokerAddrs[masterRole]
		if addr == "" || !validAddr(addr) {
			continue
		}
		if at := c.health.retryAt(addr); at > c.now.Mono {
			wait = min(wait, at)
			continue
		}
		return target{g, addr, -1}, node.Never
	}
	return target{}, wait
}
