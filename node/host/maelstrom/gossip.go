package maelstrom

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	batch   uint64 // number of the message under way
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
	g := &gossip{h: h, file: f, known: map[string]bool{}}
	r, good := bufio.NewReader(f), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.Close() // nothing was written
				return nil, fmt.Errorf("read %s: %w", f.Name(), err)
			}
			break
		}
		good += int64(len(line))
		if v := bytes.TrimSpace(line); json.Valid(v) && !g.known[string(v)] {
			g.known[string(v)] = true
			g.values = append(g.values, slices.Clone(v))
		}
	}
	if err := errors.Join(f.Truncate(good), seekEnd(f)); err != nil {
		f.Close() // the reason to end is err
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return g, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
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
		if g.learn(now, m.Src, say.Values) == nil {
			g.h.send(m.Src, gossipMessage{Type: gossipOKType, Batch: say.Batch})
		}
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

// learn takes values in, writes the new ones down and queues them for every
// neighbour but the one they came from.
func (g *gossip) learn(now node.Now, from string, values []json.RawMessage) *rpc.RPCError {
	g.all(now)
	var text []byte
	first := len(g.values)
	for _, raw := range values {
		var b bytes.Buffer
		if len(raw) == 0 || len(raw) > maxValue || json.Compact(&b, raw) != nil {
			return rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("a value is missing or has more than %d bytes", maxValue))
		}
		if tooDeep(raw) {
			return rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("a value is nested more than %d levels deep", maxDepth))
		}
		if g.known[b.String()] {
			continue
		}
		if len(g.values) >= maxValues {
			return rpc.NewRPCError(rpc.Abort, fmt.Sprintf("there are %d values already", maxValues))
		}
		g.known[b.String()] = true
		g.values = append(g.values, b.Bytes())
		text = append(append(text, b.Bytes()...), '\n')
	}
	if len(text) == 0 {
		return nil
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
	if _, err := g.file.Write(text); err != nil && !errors.Is(err, fs.ErrClosed) {
		return rpc.NewRPCError(rpc.Crash, "the value is known and not written down: "+err.Error())
	}
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
		n.batch++
		n.sent = 0
		say, size := gossipMessage{Type: gossipType, Batch: n.batch}, 0
		for n.sent < len(n.missing) && n.sent < maxBatch && size < maxBatchBytes {
			v := g.values[n.missing[n.sent]]
			say.Values = append(say.Values, v)
			size += len(v)
			n.sent++
		}
		g.h.send(n.name, say)
		n.at = now.Mono.Add(gossipAgain)
	}
}

func (g *gossip) deadline() node.Time {
	t := node.Never
	for _, n := range g.near {
		if len(n.missing) > 0 {
			t = min(t, n.at)
		}
	}
	return t
}
