package sim

import (
	"testing"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// BenchmarkWorld reports the cost of one event of a small busy world: network,
// disk, batches and hash.
func BenchmarkWorld(b *testing.B) {
	w := toyWorld(New, DefaultOptions(), &Plan{Seed: 1})
	defer w.Close()
	w.Run(sec)
	b.ReportAllocs()
	start, at := w.Stats().Events, w.Now()
	b.ResetTimer()
	for w.Stats().Events-start < uint64(b.N) {
		w.Run(w.Now() + 10*ms)
	}
	b.ReportMetric(float64(w.Now()-at)/1e9/b.Elapsed().Seconds(), "simsec/s")
}

// ball is a machine that returns a frame it made once: what the world itself
// costs.
type ball struct {
	pinger
	f  wire.Frame
	to node.SessionID
	n  int
}

func (m *ball) SessionUp(_ node.Now, s node.SessionID, _ node.Peer) { m.to, m.n = s, m.n+1 }
func (m *ball) Receive(_ node.Now, s node.SessionID, _ *wire.Frame) { m.to, m.n = s, m.n+1 }
func (m *ball) DiskDone(node.Now, storage.Result)                   {}
func (m *ball) Settle(_ node.Now, fx *node.Effects) {
	if m.n > 0 {
		m.n--
		fx.Send(m.to, m.f)
		fx.Disk = append(fx.Disk, storage.Op{ID: 1, Lane: storage.LaneQueue, Kind: storage.OpQueue})
	}
}
func (m *ball) Deadline() node.Time        { return node.Never }
func (m *ball) Listeners() []node.Listener { return []node.Listener{{Addr: "a:1"}} }

type nothing struct{}

func (nothing) Do(op storage.Op) storage.Result { return storage.Result{Op: op} }

// BenchmarkBare has machines and a store that do nothing: the loop alone.
func BenchmarkBare(b *testing.B) {
	w := New(DefaultOptions(), &Plan{Seed: 1})
	defer w.Close()
	frame := wire.Frame{Head: wire.Head{Code: 10, Language: "GO"}, Body: make([]byte, 100)}
	w.Add(NodeSpec{Name: "a", Boot: func(Life) (node.Machine, Doer, error) { return &ball{f: frame}, nothing{}, nil }})
	for _, name := range []string{"b", "c", "d"} {
		w.Add(NodeSpec{Name: name, Boot: func(Life) (node.Machine, Doer, error) {
			p := newPinger("a:1")
			return &dialBall{ball{pinger: *p, f: frame}}, nothing{}, nil
		}})
	}
	w.Run(sec)
	b.ReportAllocs()
	start, at := w.Stats().Events, w.Now()
	b.ResetTimer()
	for w.Stats().Events-start < uint64(b.N) {
		w.Run(w.Now() + 10*ms)
	}
	b.ReportMetric(float64(w.Now()-at)/1e9/b.Elapsed().Seconds(), "simsec/s")
	b.ReportMetric(float64(w.Stats().Net.Delivered), "frames")
}

// dialBall dials first.
type dialBall struct{ ball }

func (m *dialBall) SessionUp(_ node.Now, s node.SessionID, _ node.Peer) { m.to, m.n = s, 1 }
func (m *dialBall) Settle(now node.Now, fx *node.Effects) {
	if !m.dialling {
		m.dialling = true
		fx.Dials = append(fx.Dials, node.Dial{Session: 1 | node.Dialled, Addr: "a:1"})
	}
	m.ball.Settle(now, fx)
}
func (m *dialBall) Listeners() []node.Listener { return nil }
