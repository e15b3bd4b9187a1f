package broker

import (
	"strings"
	"testing"
	"time"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// TestOriginIsNamed: a log that begins in the middle of its master's names the epoch of
// its first byte before it takes one. Without the name a crash would leave bytes of an
// unknown epoch, which no master takes for its own.
func TestOriginIsNamed(t *testing.T) {
	w := started(t, 3, func(_ int, o *Options) {
		o.MappedFileSizeCommitLog, o.FileReservedTime, o.CleanResourceInterval = 4<<10, time.Second, 200*time.Millisecond
	})
	m := w.writable()
	slave := w.slaves()[0]
	slave.crash(false)
	stop, _ := w.load(m, "old", 1)
	w.until("an expired beginning", 60*time.Second, func() bool { return m.b.log.min > 0 })
	stop()
	slave.store = newMemStore(slave.n, slave.o.MappedFileSizeCommitLog)
	slave.start()
	w.until("the first byte", 20*time.Second, func() bool { return slave.b != nil && slave.b.log.min > 0 && slave.b.log.end > slave.b.log.min })
	if e := slave.b.epochs; len(e) == 0 || !slave.b.saved(saveEpochs) {
		t.Errorf("the log takes bytes at %d with epochs %v, saved %v", slave.b.log.min, e, slave.b.saved(saveEpochs))
	}
}

// TestForgedOrigin: a log that begins in the middle takes no epoch that would begin
// behind the bytes it labels.
func TestForgedOrigin(t *testing.T) {
	o := testOptions(1)
	seg := ha.LogOffset(o.MappedFileSizeCommitLog)
	b := &Broker{o: o, role: role{kind: roleSlave, phase: phaseFollowing, epoch: 5}}
	b.log = commitLog{min: seg, end: seg, issued: seg, written: seg, durable: seg}
	h := wire.Replica{Kind: wire.ReplicaAppend, Term: 5, Epoch: 5, EpochStart: seg - 9, Offset: seg}
	if why := b.refuseChunk(&h, make([]byte, 64), seg); why != "" {
		t.Errorf("an epoch that began before this log: %s", why)
	}
	h.EpochStart = seg + 1
	if why := b.refuseChunk(&h, make([]byte, 64), seg); !strings.Contains(why, "epoch 5 starts at") {
		t.Errorf("an epoch that begins behind its own bytes: %q", why)
	}
}

// TestCutBelowBeginning: a master whose log parts from this one before this one begins
// cannot be followed by a cut. The log is left alone and asks for a rebuild; a store
// that did nothing wrong does not become suspect.
func TestCutBelowBeginning(t *testing.T) {
	w := started(t, 3, nil)
	s := w.slaves()[0]
	b := s.b
	s.fact(s.life, func(now node.Now) { b.closeUpstream("test") })
	w.until("greeted", 10*time.Second, func() bool { return b.up.phase == upGreeted })
	end := b.log.end
	s.fact(s.life, func(now node.Now) {
		b.log.min, b.checkpoint.confirm, b.up.promisedIn = end-8, 0, 0
		self := ha.Incarnation{Broker: b.view.master, Store: b.view.store, Boot: b.view.boot}
		b.Receive(now, b.up.session, &wire.Frame{Link: wire.Replication, Replica: &wire.Replica{Kind: wire.ReplicaWelcome,
			Self: self, Term: b.role.epoch, Epoch: b.role.epoch, Epochs: b.epochs, Offset: end - 16}})
	})
	if b.cut.wanted || b.failed() || b.log.end != end || !strings.Contains(b.up.rebuild, "begins at") {
		t.Errorf("cut wanted %v, failure %q, end %d of %d, rebuild %q", b.cut.wanted, b.failure.reason, b.log.end, end, b.up.rebuild)
	}
}
