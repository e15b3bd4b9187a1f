package broker

import (
	"testing"
	"time"

	"lockstep/node"
)

// TestForgottenStream: a device on the way forgets the master's streams, so that they
// look open and carry nothing. New ones take their place soon enough that the master
// stays the master and the routes stay right.
func TestForgottenStream(t *testing.T) {
	w := started(t, 2, nil)
	m, epoch := w.writable(), w.ctl.epoch
	old := w.uplinksOf(m)
	for _, s := range old {
		s.forgotten = true
	}
	before := w.ns.registers
	m.b.ns.hurry()
	w.run(m.o.controllerSilence() + 2*m.o.BrokerHeartbeatInterval)
	for _, s := range w.uplinksOf(m) {
		if s.forgotten {
			t.Errorf("%s still goes over the forgotten stream", s.addr)
		}
	}
	if w.ns.registers == before {
		t.Error("the name server hears nothing")
	}
	w.run(3 * m.o.ControllerHeartBeatTimeout)
	if w.ctl.epoch != epoch || w.writable() != m {
		t.Errorf("epoch %d after %d: the master was taken for dead", w.ctl.epoch, epoch)
	}
}

// TestAnswersLost: where only what the controllers say is lost, the heartbeats of the
// old stream still arrive, because it is kept until a new one is up.
func TestAnswersLost(t *testing.T) {
	w := started(t, 2, nil)
	m := w.writable()
	w.cut = func(from, to string) bool { return from == "c1" && to == m.host }
	w.run(2 * m.o.ControllerHeartBeatTimeout)
	if seen := w.ctl.members[m.b.id.Broker].seen; w.now.Sub(seen) > 2*m.o.BrokerHeartbeatInterval {
		t.Fatalf("last heard %v ago", w.now.Sub(seen))
	}
	w.cut = func(string, string) bool { return false }
	w.run(3 * time.Second)
	if c := m.b.reg.conns[0]; !c.up || c.spare != 0 || c.asked != 0 && w.now.Sub(c.asked) > time.Second {
		t.Fatalf("the stream after the cut: %+v", c.uplink)
	}
}

// uplinksOf are the open streams of a broker to controllers and name servers.
func (w *world) uplinksOf(m *machine) []*stream {
	var out []*stream
	for _, s := range w.streams {
		if s.ends[0] == m && !s.dead && (s.addr == w.ctl.addr || s.addr == w.ns.addr) && s.ids[0]&node.Dialled != 0 {
			out = append(out, s)
		}
	}
	return out
}
