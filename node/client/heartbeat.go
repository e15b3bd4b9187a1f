package client

import (
	"lockstep/node"
	"lockstep/node/wire"
)

// heartbeats reports whether the client belongs to a group at all.
func (c *Client) heartbeats() bool { return c.opt.ProducerGroup != "" || c.opt.ConsumerGroup != "" }

// takesHeartbeats makes k the stream of a broker: its first heartbeat goes out
// before the first request, so that the broker knows whom it serves.
func (k *conn) takesHeartbeats(c *Client) {
	if !k.broker {
		k.broker, k.nextHeartbeat = true, c.now.Mono
		c.beat(k)
	}
}

// settleHeartbeats sends those that are due.
func (c *Client) settleHeartbeats() {
	if c.stopping {
		return
	}
	for _, k := range c.conns {
		if k.up && k.broker && c.now.Mono >= k.nextHeartbeat {
			c.beat(k)
		}
	}
}

// beat sends a heartbeat (code 34). Its answer is not waited for: a stream that is
// dead shows it by the requests on it.
func (c *Client) beat(k *conn) {
	k.nextHeartbeat = c.now.Mono.Add(c.opt.HeartbeatBrokerInterval)
	if !c.heartbeats() {
		return
	}
	h := wire.HeartbeatData{ClientID: c.opt.ClientID}
	if c.opt.ProducerGroup != "" {
		h.ProducerDataSet = []wire.ProducerData{{GroupName: c.opt.ProducerGroup}}
	}
	if c.opt.ConsumerGroup != "" {
		data := wire.ConsumerData{GroupName: c.opt.ConsumerGroup, ConsumeType: wire.ConsumeActively,
			MessageModel: wire.ModelClustering, ConsumeFromWhere: wire.ConsumeFromLast}
		for _, s := range c.subs {
			data.Subscriptions = append(data.Subscriptions, s.data())
			if s.arg.From == FromFirst {
				data.ConsumeFromWhere = wire.ConsumeFromFirst
			}
		}
		h.ConsumerDataSet = []wire.ConsumerData{data}
	}
	c.post(k, wire.NewRequest(wire.ReqHeartbeat, 0, nil, wire.MarshalBody(&h)))
}

// beatSoon makes every broker hear of a changed subscription.
func (c *Client) beatSoon() {
	for _, k := range c.conns {
		if k.broker {
			k.nextHeartbeat = c.now.Mono
		}
	}
}

// post sends a request whose answer nobody waits for.
func (c *Client) post(k *conn, f wire.Frame) {
	c.nextOpaque = c.freeOpaque()
	f.Head.Opaque = c.nextOpaque
	wire.Seal(&f)
	c.sends = append(c.sends, node.Send{To: k.id, Frame: f})
}

// unregister says goodbye (code 35).
func (c *Client) unregister(k *conn) {
	if c.heartbeats() {
		c.post(k, wire.NewRequest(wire.ReqUnregisterClient, 0, &wire.UnregisterClientRequest{ClientID: c.opt.ClientID,
			ProducerGroup: c.opt.ProducerGroup, ConsumerGroup: c.opt.ConsumerGroup}, nil))
	}
}
