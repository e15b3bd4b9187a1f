package maelstrom

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"lockstep/node"
	"lockstep/node/host/maelstrom/rpc"
)

// gossip serves the broadcast workload: a set of values that every node learns.
// Each neighbour has a list of what it is not known to have; the list is sent as
// one message, again until it is acknowledged, so a neighbour behind a cut gets all
// of it when the cut is over. Values are written to a file before they are
// acknowledged to anybody: a process that is killed has them when it starts again.
type gossip struct {
	h      *Host
	file   *os.File
	end    int64  // of the file's lines
	torn   bool   // a write failed: what it left behind the end is still there
	batch  uint64 // number of the newest message to a neighbour
	values []json.RawMessage
	known  map[string]bool
	near   []*neighbour // empty before the topology, or a value, came
	settop bool         // the topology was given
}

// neighbour is one node that values are sent to.
type neighbour struct {
	name    string
	missing []int // indices of values, in order; the first sent are under way
	sent    int
	batch   uint64 // number of the message under way: no other one has it, in this life or another
	at      node.Time
}

// gossipMessage is what nodes and clients say about values.
type gossipMessage struct {
	Type     string              `json:"type"`
	Message  json.RawMessage     `json:"message,omitempty"`
	Topology map[string][]string `json:"topology,omitempty"`
	Batch    uint64              `json:"batch,omitempty"`
	Values   []json.RawMessage   `json:"values,omitempty"`
}

// Types of messages between nodes.
const (
	gossipType   = "gossip"
	gossipOKType = "gossip_ok"
)

// Limits and times of gossip.
const (
	maxValues     = 1 << 22
	maxValue      = 64 << 10 // bytes
	maxBatch      = 4096     // values
	maxBatchBytes = 1 << 20
	// gossipPause gathers values into one message.
	gossipPause = 30 * time.Millisecond
	// gossipAgain is the time after which a batch is sent again.
	gossipAgain = 400 * time.Millisecond
)

// openGossip reads the values of earlier lives. A last line without its end was
// never acknowledged and is cut.
func openGossip(h *Host, dir *folder) (*gossip, error) {
	f, err := os.OpenFile(dir.file("broadcast"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	g := &gossip{h: h, file: f, known: map[string]bool{}, batch: dir.life << 20}
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.Close() // nothing was written
				return nil, fmt.Errorf("read %s: %w", f.Name(), err)
			}
			break
		}
		g.end += int64(len(line))
		if v := bytes.TrimSpace(line); json.Valid(v) && !g.known[string(v)] {
			g.known[string(v)] = true
			g.values = append(g.values, slices.Clone(v))
		}
	}
	if err := f.Truncate(g.end); err != nil {
		f.Close() // the reason to end is err
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return g, nil
}

// receive takes a message of a client or a neighbour.
func (g *gossip) receive(now node.Now, m *rpc.Message, say *gossipMessage) {
	switch say.Type {
	case "topology":
		g.topology(now, say.Topology)
		g.h.reply(m, typeOnly{"topology_ok"})
	case "broadcast":
		if err := g.learn(now, "", []json.RawMessage{say.Message}); err != nil {
			g.h.reply(m, err)
			return
		}
		g.h.reply(m, typeOnly{"broadcast_ok"})
	case "read":
		g.h.reply(m, struct {
			Type     string            `json:"type"`
			Messages []json.RawMessage `json:"messages"`
		}{"read_ok", append([]json.RawMessage{}, g.values...)})
	case gossipType:
		if err := g.learn(now, m.Src, say.Values); err != nil {
			g.h.o.Log.Warn("values of a neighbour were not taken", "node", g.h.self, "from", m.Src, "error", err)
			return // it sends them again
		}
		g.h.send(m.Src, gossipMessage{Type: gossipOKType, Batch: say.Batch})
	case gossipOKType:
		for _, n := range g.near {
			if n.name == m.Src && n.batch == say.Batch && n.sent > 0 {
				n.missing, n.sent = n.missing[n.sent:], 0
				n.at = now.Mono
			}
		}
	}
}

// topology sets the neighbours; what each of them has is unknown.
func (g *gossip) topology(now node.Now, t map[string][]string) {
	g.settop = true
	old := g.near
	g.near = nil
	names := slices.Clone(t[g.h.self])
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == g.h.self || !slices.Contains(g.h.nodes, name) {
			continue // no message may go to an unknown name
		}
		i := slices.IndexFunc(old, func(n *neighbour) bool { return n.name == name })
		if i >= 0 {
			g.near = append(g.near, old[i])
			continue
		}
		g.near = append(g.near, g.stranger(now, name))
	}
}

func (g *gossip) stranger(now node.Now, name string) *neighbour {
	n := &neighbour{name: name, at: now.Mono}
	for i := range g.values {
		n.missing = append(n.missing, i)
	}
	return n
}

// all makes every other node a neighbour until a topology says otherwise.
func (g *gossip) all(now node.Now) {
	if g.settop || len(g.near) > 0 {
		return
	}
	for _, name := range g.h.nodes {
		if name != g.h.self {
			g.near = append(g.near, g.stranger(now, name))
		}
	}
}

// learn takes in values, all or none: the new ones are written down, then known, and
// queued for every neighbour but the one they came from.
func (g *gossip) learn(now node.Now, from string, values []json.RawMessage) *rpc.RPCError {
	g.all(now)
	fresh, refused := g.fresh(values)
	if refused != nil || len(fresh) == 0 {
		return refused
	}
	if err := g.write(fresh); err != nil {
		return rpc.NewRPCError(rpc.Crash, "the value was not written down: "+err.Error())
	}
	first := len(g.values)
	for _, v := range fresh {
		g.known[string(v)] = true
		g.values = append(g.values, v)
	}
	for _, n := range g.near {
		if n.name == from {
			continue
		}
		if len(n.missing) == 0 {
			n.at = now.Mono.Add(gossipPause)
		}
		for i := first; i < len(g.values); i++ {
			n.missing = append(n.missing, i)
		}
	}
	return nil
}

// fresh is which of the values are not known, as compact text and each once.
func (g *gossip) fresh(values []json.RawMessage) ([]json.RawMessage, *rpc.RPCError) {
	var out []json.RawMessage
	met := map[string]bool{}
	for _, raw := range values {
		var b bytes.Buffer
		if len(raw) == 0 || len(raw) > maxValue || json.Compact(&b, raw) != nil {
			return nil, rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("a value is missing or has more than %d bytes", maxValue))
		}
		if tooDeep(raw) {
			return nil, rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("a value is nested more than %d levels deep", maxDepth))
		}
		if v := b.String(); !g.known[v] && !met[v] {
			met[v] = true
			out = append(out, b.Bytes())
		}
	}
	if len(g.values)+len(out) > maxValues {
		return nil, rpc.NewRPCError(rpc.Abort, fmt.Sprintf("there are %d values already, at most %d", len(g.values), maxValues))
	}
	return out, nil
}

// write appends values to the file. What a write that failed has left is cut first: a
// line behind half a line would be a value that nobody ever sent.
func (g *gossip) write(values []json.RawMessage) error {
	if g.torn {
		if err := g.file.Truncate(g.end); err != nil {
			return err
		}
		g.torn = false
	}
	var text []byte
	for _, v := range values {
		text = append(append(text, v...), '\n')
	}
	if _, err := g.file.WriteAt(text, g.end); err != nil {
		g.torn = true
		return err
	}
	g.end += int64(len(text))
	return nil
}

// settle sends what is due to each neighbour.
func (g *gossip) settle(now node.Now) {
	if len(g.values) > 0 {
		g.all(now)
	}
	for _, n := range g.near {
		if len(n.missing) == 0 || now.Mono < n.at {
			continue
		}
		if n.sent == 0 {
			g.batch++
			n.batch = g.batch
			for size := 0; n.sent < len(n.missing) && n.sent < maxBatch && size < maxBatchBytes; n.sent++ {
				size += len(g.values[n.missing[n.sent]])
			}
		}
		// Sent again it is the same message, so that an answer to either one counts.
		say := gossipMessage{Type: gossipType, Batch: n.batch}
		for _, i := range n.missing[:n.sent] {
			say.Values = append(say.Values, g.values[i])
		}
		g.h.send(n.name, say)
		n.at = now.Mono.Add(gossipAgain)
	}
}

// close gives the file back.
func (g *gossip) close() error { return g.file.Close() }

func (g *gossip) deadline() node.Time {
	t := node.Never
	for _, n := range g.near {
		if len(n.missing) > 0 {
			t = min(t, n.at)
		}
	}
	return t
}
