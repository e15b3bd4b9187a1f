package scenarios

import (
	"slices"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/sim"
	"lockstep/storage"
)

// postmanNode is the name of the postman.
const postmanNode = "x1"

// postman is a node that sends frames of a drill's making: copies of what others
// sent, late, twice or in another order, and forgeries. It keeps no protocol.
type postman struct {
	wake   func() // makes the world look at the postman at once
	seen   node.Time
	lines  []*line
	dials  uint64
	opaque int32
	awaits map[int32]func(f *wire.Frame) // looked up, never ranged over
}

// line is the postman's stream to one address.
type line struct {
	addr    string
	session node.SessionID // 0: none
	up      bool
	letters []wire.Frame
}

var _ node.Machine = (*postman)(nil)

// addPostman puts a postman into the world of a run; Begin calls it.
func (r *Run) addPostman() *postman {
	p := &postman{awaits: map[int32]func(f *wire.Frame){}, wake: func() { r.World.Wake(postmanNode) }}
	r.add(sim.NodeSpec{Name: postmanNode, Steady: true, Boot: func(sim.Life) (node.Machine, sim.Doer, error) { return p, nil, nil }})
	return p
}

// post sends a request to an address; answer, when not nil, is called with what
// comes back.
func (p *postman) post(addr string, f wire.Frame, answer func(f *wire.Frame)) {
	p.opaque++
	f.Head.Opaque = p.opaque
	if answer != nil {
		p.awaits[f.Head.Opaque] = answer
	}
	l := p.line(addr)
	l.letters = append(l.letters, f)
	p.wake()
}

func (p *postman) line(addr string) *line {
	for _, l := range p.lines {
		if l.addr == addr {
			return l
		}
	}
	p.lines = append(p.lines, &line{addr: addr})
	return p.lines[len(p.lines)-1]
}

func (p *postman) of(s node.SessionID) *line {
	for _, l := range p.lines {
		if l.session == s {
			return l
		}
	}
	return nil
}

// SessionUp notes that letters may go.
func (p *postman) SessionUp(_ node.Now, s node.SessionID, _ node.Peer) {
	if l := p.of(s); l != nil {
		l.up = true
	}
}

// SessionDown drops what was not sent; the next letter dials again.
func (p *postman) SessionDown(_ node.Now, s node.SessionID, _ string) {
	if l := p.of(s); l != nil {
		*l = line{addr: l.addr}
	}
}

// Receive hands an answer to who waits for it.
func (p *postman) Receive(_ node.Now, _ node.SessionID, f *wire.Frame) {
	if answer := p.awaits[f.Head.Opaque]; answer != nil && f.Head.Response() {
		delete(p.awaits, f.Head.Opaque)
		answer(f)
	}
}

// Settle dials and sends.
func (p *postman) Settle(now node.Now, fx *node.Effects) {
	p.seen = now.Mono
	for _, l := range p.lines {
		switch {
		case len(l.letters) == 0:
		case l.session == 0:
			p.dials++
			l.session = node.Dialled | node.SessionID(p.dials)
			fx.Dials = append(fx.Dials, node.Dial{Session: l.session, Link: wire.Remoting, Addr: l.addr})
		case l.up:
			for _, f := range l.letters {
				fx.Send(l.session, f)
			}
			l.letters = nil
		}
	}
}

// letterPeriod is how often a postman looks for letters whom nobody wakes.
const letterPeriod = 10 * time.Millisecond

// Deadline is never where letters wake the postman.
func (p *postman) Deadline() node.Time {
	if p.wake != nil {
		return node.Never
	}
	return p.seen.Add(letterPeriod)
}

// DiskDone does nothing: a postman has no disk.
func (p *postman) DiskDone(node.Now, storage.Result) {}

// Stop does nothing.
func (p *postman) Stop(node.Now) {}

// Listeners are none.
func (p *postman) Listeners() []node.Listener { return nil }

// CheckInvariants has nothing to check.
func (p *postman) CheckInvariants() {}

// Conditions are none.
func (p *postman) Conditions() []node.Condition { return nil }

// Gauges are none.
func (p *postman) Gauges(func(string, float64)) {}

// keepFrame copies a frame that will be sent again.
func keepFrame(f *wire.Frame) wire.Frame {
	g := *f
	g.Head.Ext = slices.Clone(f.Head.Ext)
	g.Body = slices.Clone(f.Body)
	return g
}
