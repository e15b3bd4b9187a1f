package maelstrom

import (
	"log/slog"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// answering is a machine that answers everything before an instant, and takes time.
type answering struct {
	node.Machine // what this test does not call
	end          node.Time
	stall        func()
	asked        []*wire.Frame
	from         node.SessionID
	downs        int
}

func (m *answering) SessionUp(node.Now, node.SessionID, node.Peer) {}

func (m *answering) SessionDown(node.Now, node.SessionID, string) { m.downs++ }

func (m *answering) Receive(_ node.Now, s node.SessionID, f *wire.Frame) {
	m.asked, m.from = append(m.asked, f), s
}

func (m *answering) Settle(_ node.Now, fx *node.Effects) {
	for _, f := range m.asked {
		fx.SendBefore(m.from, wire.NewResponse(&f.Head, 0, nil, nil), m.end)
	}
	if len(m.asked) > 0 {
		m.stall()
	}
	m.asked = nil
}

// asking is the other party.
type asking struct{ answers, downs int }

func (p *asking) up(node.Now, *end)                   {}
func (p *asking) receive(node.Now, *end, *wire.Frame) { p.answers++ }
func (p *asking) down(node.Now, *end, string)         { p.downs++ }

// TestAnswersOfALongBatch: what may be said only before an instant is not said when the
// batch lasts longer, and whoever waits learns that the stream is over; what may be
// said whenever is said.
func TestAnswersOfALongBatch(t *testing.T) {
	for _, c := range []struct {
		name           string
		end            node.Time
		stall          time.Duration
		answers, downs int
	}{
		{"in time", 100, 99, 1, 0},
		{"at the end", 100, 100, 0, 1},
		{"too late", 100, time.Hour, 0, 1},
		{"whenever", 0, time.Hour, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var now node.Now
			h := &Host{o: Options{Profile: DefaultProfile(1), Log: slog.New(slog.DiscardHandler)}, clock: func() node.Now { return now },
				self: "n0", nodes: []string{"n0"}, dir: &folder{}}
			h.net, h.gate = newLinks(h), newGateway(h)
			m := &answering{end: c.end, stall: func() { now.Mono = now.Mono.Add(c.stall) }}
			s := newSeat(h, "controller", nil)
			s.machine = m
			h.seats = []*seat{s}
			p := &asking{}
			e := h.net.dial(now, p, node.Dial{Session: node.Dialled | 1, Link: wire.Remoting, Addr: addrOf(0, portController)})
			began := now
			round := func() {
				s.settle(began)
				h.net.deliver(began)
			}
			round()
			f := wire.NewRequest(wire.ReqGetControllerMetadata, 1, nil, nil)
			h.net.send(began, e, &f)
			for range 3 {
				round()
			}
			if p.answers != c.answers || p.downs != c.downs || m.downs != c.downs {
				t.Errorf("%d answers, %d ends here and %d there, want %d and %d", p.answers, p.downs, m.downs, c.answers, c.downs)
			}
		})
	}
}
