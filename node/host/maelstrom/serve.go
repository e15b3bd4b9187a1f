package maelstrom

import (
	"encoding/json"
	"fmt"

	"lockstep/node/host/maelstrom/rpc"
)

// register names what the node serves. All of these run on the reading goroutine
// and only look at the message: the loop does the work.
func (h *Host) register() {
	n := h.o.Node
	n.Handle("init", func(m rpc.Message) error {
		var b struct {
			NodeID  string   `json:"node_id"`
			NodeIDs []string `json:"node_ids"`
		}
		if err := m.Decode(&b); err != nil {
			return err
		}
		return h.initialise(b.NodeID, b.NodeIDs)
	})
	serve := func(typ string, fn rpc.HandlerFunc) { n.HandleNow(typ, h.begun(fn)) }
	serve("echo", h.echo)
	serve("generate", h.generate)
	for typ, read := range map[string]func(*rpc.Message) (task, error){
		"send": newSend, "poll": newPoll, "commit_offsets": newCommit, "list_committed_offsets": newList,
		"write": newRegister, "cas": newRegister,
	} {
		serve(typ, func(m rpc.Message) error { return h.request(m, read) })
	}
	serve("read", h.read)
	serve("topology", h.say)
	serve("broadcast", h.say)
	serve(gossipType, h.between(h.say))
	serve(gossipOKType, h.between(h.say))
	serve(packetType, h.between(h.packet))
}

// begun keeps requests from a node whose init failed.
func (h *Host) begun(fn rpc.HandlerFunc) rpc.HandlerFunc {
	return func(m rpc.Message) error {
		if h.dir == nil {
			return rpc.NewRPCError(rpc.TemporarilyUnavailable, "this node could not begin; nothing was done")
		}
		return fn(m)
	}
}

// request reads a client's request and gives it to the loop.
func (h *Host) request(m rpc.Message, read func(*rpc.Message) (task, error)) error {
	if !m.Asks() {
		return nil // nobody could be told what became of it
	}
	if h.unfit != nil {
		return rpc.NewRPCError(rpc.NotSupported, fmt.Sprintf("%d nodes form no group: %v", len(h.nodes), h.unfit))
	}
	t, err := read(&m)
	if err != nil {
		return err
	}
	m.Body = nil // the task has what it needs
	if !h.box.put(fact{kind: factRequest, at: h.clock().Mono, msg: m, task: t}) {
		return rpc.NewRPCError(rpc.TemporarilyUnavailable, "too many requests wait; nothing was done")
	}
	return nil
}

// maxDepth bounds the nesting of values that are kept. They come back, to clients
// and between nodes, deeper than they came in, and readers of JSON have limits: a
// value that nobody can read would hold up all that travels with it.
const maxDepth = 64

// tooDeep reports whether a JSON text is nested too deep to be kept.
func tooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++ // whatever follows belongs to it
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// echo answers with what it was sent.
func (h *Host) echo(m rpc.Message) error {
	var b struct {
		Echo json.RawMessage `json:"echo"`
	}
	if err := m.Decode(&b); err != nil || !m.Asks() {
		return err
	}
	if len(b.Echo) == 0 {
		return rpc.NewRPCError(rpc.MalformedRequest, "echo has nothing to echo")
	}
	return h.o.Node.Reply(m, struct {
		Type string          `json:"type"`
		Echo json.RawMessage `json:"echo"`
	}{"echo_ok", b.Echo})
}

// generate answers with an id that nobody gives out again: the node's name, its
// life, and a count within it.
func (h *Host) generate(m rpc.Message) error {
	if !m.Asks() {
		return nil
	}
	h.ids++
	return h.o.Node.Reply(m, struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}{"generate_ok", fmt.Sprintf("%s-%d-%d", h.self, h.dir.life, h.ids)})
}

// read is a request of two workloads: lin-kv names a key, broadcast does not.
func (h *Host) read(m rpc.Message) error {
	var b struct {
		Key json.RawMessage `json:"key"`
	}
	if err := m.Decode(&b); err != nil {
		return err
	}
	if len(b.Key) == 0 {
		return h.say(m)
	}
	return h.request(m, newRegister)
}

// say gives a message of the broadcast workload to the loop.
func (h *Host) say(m rpc.Message) error {
	f := fact{kind: factGossip, msg: m}
	if err := m.Decode(&f.say); err != nil {
		return err
	}
	switch {
	case f.say.Type == "broadcast" && len(f.say.Message) == 0:
		return rpc.NewRPCError(rpc.MalformedRequest, "broadcast has no message")
	case f.say.Type == "topology" && f.say.Topology == nil:
		return rpc.NewRPCError(rpc.MalformedRequest, "topology has no topology")
	}
	if !h.box.put(f) && m.Asks() {
		return rpc.NewRPCError(rpc.TemporarilyUnavailable, "too many messages wait; nothing was done")
	}
	return nil
}

// packet gives a peer's packet to the loop; one too many is lost, as on any network.
func (h *Host) packet(m rpc.Message) error {
	var b packetBody
	if err := m.Decode(&b); err != nil {
		return err
	}
	m.Body = nil
	h.box.put(fact{kind: factPacket, msg: m, packet: b.Data})
	return nil
}

// between guards what only nodes say to each other: whoever else sends it, and
// whatever is wrong with it, gets the answer of a node that does not know it.
func (h *Host) between(fn rpc.HandlerFunc) rpc.HandlerFunc {
	return func(m rpc.Message) error {
		for _, n := range h.nodes {
			if n == m.Src && n != h.self {
				if err := fn(m); err != nil {
					h.o.Log.Warn("a message of a peer was dropped", "node", h.self, "from", m.Src, "error", err)
				}
				return nil
			}
		}
		return rpc.NewRPCError(rpc.NotSupported, "only nodes of this run send "+m.Type())
	}
}
