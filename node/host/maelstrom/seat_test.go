package maelstrom

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/host"
	"lockstep/node/host/maelstrom/rpc"
	"lockstep/node/host/maelstrom/session"
	"lockstep/node/wire"
	"lockstep/storage"
)

// leaving is a machine that dials another node, and ends when it is told to.
type leaving struct {
	node.Machine // what this test does not call
	dialled      bool
	leave        bool
}

func (m *leaving) Settle(_ node.Now, fx *node.Effects) {
	if !m.dialled {
		m.dialled = true
		fx.Dials = append(fx.Dials, node.Dial{Session: node.Dialled | 1, Link: wire.Raft, Addr: addrOf(1, portRaft)})
	}
	if m.leave {
		fx.Exit = &node.Exit{Code: node.ExitFailed, Reason: "told to"}
	}
}

// noDisk has nothing to do.
type noDisk struct{}

func (noDisk) Do(op storage.Op) storage.Result { return storage.Result{Op: op} }

// TestEndOfAMachineInTheBatchOfItsStream: a machine ends in the very batch in which
// a peer accepts a stream that it dialled; nobody is there to be told.
func TestEndOfAMachineInTheBatchOfItsStream(t *testing.T) {
	var now node.Now
	n := rpc.NewNode()
	n.Stdout = io.Discard
	n.Init("n0", []string{"n0", "n1"})
	h := &Host{o: Options{Node: n, Profile: DefaultProfile(1), Log: slog.New(slog.DiscardHandler)}, clock: func() node.Now { return now },
		self: "n0", nodes: []string{"n0", "n1"}, dir: &folder{life: 1}}
	h.net, h.gate = newLinks(h), newGateway(h)
	m := &leaving{}
	s := newSeat(h, "controller", nil)
	s.machine, s.close = m, func() error { return nil }
	s.lanes = host.StartLanes(host.LaneOptions{Disk: noDisk{}, Readers: 1, Done: func(*storage.Result) {}})
	h.seats = []*seat{s}
	far := session.New(h.o.Profile.sessionOptions([]string{"n0"}, 1, func(string) bool { return true }))
	s.settle(now)
	for range 10 { // the two ends get to know each other, and the far one accepts
		var fx session.Effects
		far.Settle(now.Mono, &fx)
		for _, p := range fx.Packets {
			h.net.mux.Receive(now.Mono, "n1", &p.Packet)
		}
		if len(fx.Facts) > 0 {
			break
		}
		fx.Reset()
		h.net.mux.Settle(now.Mono, &fx)
		for _, p := range fx.Packets {
			far.Receive(now.Mono, "n0", &p.Packet)
		}
		now.Mono = now.Mono.Add(time.Second / 2)
	}
	m.leave = true
	s.settle(now)
	for range 3 {
		h.net.deliver(now)
	}
	if len(s.ends) > 0 || len(h.net.far) > 0 {
		t.Errorf("%d streams of the machine, %d of the node are left", len(s.ends), len(h.net.far))
	}
}
