package storage

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
	"lockstep/storage/vfs/crashenum"
)

var crashStates = flag.Int("crash-states", 8, "states visited at each boundary of the larger crash programs")

// trap is a tester whose failures are panics that catch turns into errors,
// so that the same helpers serve tests, crash programs and crash checks.
type trap struct{ tester }

type trapped struct{ err error }

func (t trap) Helper()                      {}
func (t trap) Fatal(args ...any)            { panic(trapped{errors.New(fmt.Sprint(args...))}) }
func (t trap) Fatalf(f string, args ...any) { panic(trapped{fmt.Errorf(f, args...)}) }
func (t trap) Errorf(f string, args ...any) { t.Fatalf(f, args...) }

func catch(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(trapped)
			if !ok {
				panic(r)
			}
			err = e.err
		}
	}()
	f()
	return nil
}

// history is what a crash program tells its check.
type history struct {
	written [][]byte // records in log order; a truncation starts a new list
	acked   int      // of written, synced
	old     [][]byte // the records before a truncation, nil once it returned
	loose   bool     // several unsynced writes may be in flight: the claim may break
	epoch   ha.MasterEpoch
	barrier bool // a barrier of that epoch was synced
}

// crashCase runs a program over every crash state and checks each.
type crashCase struct {
	name    string
	prepare func(a *appender)
	program func(a *appender, h *history)
	extra   func(a *appender, h *history) error
	cfg     crashenum.Config
}

func (c crashCase) run(t *testing.T) {
	start := vfs.NewMem(vfs.MemOptions{})
	var base [][]byte
	if c.prepare != nil {
		a := openStore(t, start, testOptions(1))
		c.prepare(a)
		a.sync()
		base = a.stored
		if err := a.s.Close(); err != nil {
			t.Fatal(err)
		}
		start.Crash(vfs.PowerLoss, vfs.KeepNothing)
	}
	var h history
	cfg := c.cfg
	cfg.Start = start
	cfg.Program = func(fsys vfs.FS) error {
		h = history{written: slices.Clone(base), acked: len(base)}
		return catch(func() {
			a := openStore(trap{t}, fsys, testOptions(2))
			a.stored = slices.Clone(base)
			c.program(a, &h)
		})
	}
	cfg.Check = func(s crashenum.State) error { return c.check(t, s, &h) }
	rep, err := crashenum.Run(cfg)
	t.Logf("%s: %v", c.name, rep)
	if err != nil {
		t.Fatal(err)
	}
}

// check recovers a state and demands: it opens; every synced record is there;
// nothing is there that was never written; queues match the log; what was kept
// is durable now, so that a second power loss changes nothing; and the store
// takes new records.
func (c crashCase) check(t *testing.T, s crashenum.State, h *history) (err error) {
	return catch(func() {
		tb := trap{t}
		a := openStore(tb, s.FS, testOptions(3))
		got := records(tb, a.readLog(), a.rec.Min, a.seg)
		list, kept := h.written, h.acked
		if h.old != nil && !isPrefix(got, h.written) {
			list, kept = h.old, 0 // the cut has not happened
		}
		if !isPrefix(got, list) {
			tb.Fatalf("the log holds %d records that are not the first of the %d written", len(got), len(list))
		}
		if len(got) < kept && a.rec.Suspect == "" {
			tb.Fatalf("%d records of %d acknowledged", len(got), kept)
		}
		if a.rec.Suspect != "" && !c.cfg.Torn {
			tb.Fatalf("suspect after a mere crash: %s", a.rec.Suspect)
		}
		if a.rec.Claim != ha.ClaimHolds && !h.loose && !c.cfg.Torn {
			tb.Fatalf("claim %v: %v", a.rec.Claim, readMark(s.FS, NameBrokenClaim, "claim"))
		}
		if c.extra != nil {
			if err := c.extra(a, h); err != nil {
				tb.Fatal(err)
			}
		}
		a.checkContents(got)
		if a.rec.Suspect != "" {
			return
		}
		s.FS.Crash(vfs.PowerLoss, vfs.KeepNothing)
		b := openStore(tb, s.FS, testOptions(4))
		if b.rec.End != a.rec.End || b.rec.Min != a.rec.Min {
			tb.Fatalf("recovered [%d, %d), and [%d, %d) after a second power loss", a.rec.Min, a.rec.End, b.rec.Min, b.rec.End)
		}
		b.checkContents(got)
		b.append(message("A", 0, "after"))
		b.sync()
		b.file()
		b.rec.Queues = nil
		b.checkContents(append(slices.Clone(got), b.stored...))
	})
}

func isPrefix(got, list [][]byte) bool {
	return len(got) <= len(list) && slices.EqualFunc(got, list[:len(got)], slices.Equal)
}

// step appends, syncs and notes what is acknowledged.
func (h *history) step(a *appender, drafts ...Draft) {
	h.put(a, drafts...)
	a.sync()
	h.acked = len(h.written)
}

// put appends without syncing. The note is made first: a write that was cut
// short by the crash may be there in part.
func (h *history) put(a *appender, drafts ...Draft) {
	off := a.end
	n := len(a.stored)
	var data [][]byte
	for _, d := range drafts {
		data = append(data, a.build(d)...)
	}
	h.written = append(h.written, a.stored[n:]...)
	a.must(Op{Kind: OpAppend, Off: off, Data: data})
}

func TestCrashStates(t *testing.T) {
	// Programs over a few records are enumerated in full; a state of the others takes
	// milliseconds to check, so that only a sample of theirs is visited.
	limit := crashenum.Config{PerPoint: 600, Seed: 1}
	sample := crashenum.Config{PerPoint: *crashStates, Seed: 1}
	for _, c := range []crashCase{
		{name: "append and flush", cfg: limit, program: func(a *appender, h *history) {
			h.step(a, message("A", 0, "one"))
			h.step(a, message("A", 0, "two"), message("B", 1, body(20)))
			a.checkpoint()
			h.step(a, message("A", 0, body(15)))
		}},
		{name: "two writes in flight", cfg: limit, program: func(a *appender, h *history) {
			h.step(a, message("A", 0, "one"))
			h.loose = true
			h.put(a, message("A", 0, body(18)))
			h.put(a, message("A", 1, body(18)))
			a.sync()
			h.acked, h.loose = len(h.written), false
		}},
		{name: "segment roll", cfg: sample, prepare: fillSegment, program: func(a *appender, h *history) {
			a.must(Op{Kind: OpPrepare, Off: testSegment})
			h.loose = true // the blank may be lost and the record behind it not
			h.step(a, message("A", 0, body(18)))
			h.loose = false
			h.step(a, message("A", 0, "two"))
		}},
		{name: "segment roll without preparing", cfg: sample, prepare: fillSegment, program: func(a *appender, h *history) {
			h.loose = true
			h.step(a, message("A", 0, body(18)), message("A", 1, body(3)))
			h.loose = false
		}},
		{name: "queues and checkpoint", cfg: sample, program: func(a *appender, h *history) {
			for i := range 6 {
				h.step(a, message("A", int32(i%2), body(18)))
				a.file()
			}
			a.checkpoint()
			h.step(a, message("C", 0, "one"))
			a.file()
			a.checkpoint()
		}},
		{name: "truncate", cfg: sample, prepare: func(a *appender) { a.fill(70); a.sync(); a.file(); a.checkpoint() },
			program: func(a *appender, h *history) {
				h.old = h.written
				at, _ := DecodeRecord(a.stored[30])
				h.written = h.written[:30]
				h.acked = 30
				a.truncate(at.Physical)
				h.old = nil
				h.step(a, message("A", 0, "other history"))
				a.file()
				a.checkpoint()
				h.step(a, message("B", 0, body(9)))
			}},
		{name: "truncate to the start", cfg: sample, prepare: func(a *appender) { a.fill(40); a.sync() },
			program: func(a *appender, h *history) {
				h.old, h.written, h.acked = h.written, nil, 0
				a.truncate(0)
				h.old = nil
				h.step(a, message("A", 0, "other history"))
			}},
		{name: "epoch change", cfg: sample, prepare: func(a *appender) { a.fill(3) }, program: epochChange, extra: epochsAgree},
		{name: "clean stop", cfg: sample, prepare: func(a *appender) { a.fill(5) }, program: func(a *appender, h *history) {
			h.loose = true // received acks: only the clean mark vouches for them
			a.must(Op{Kind: OpSave, Name: NameReceivedAcks, Blob: []byte("x")})
			h.put(a, message("A", 0, "one"))
			a.file()
			a.must(Op{Kind: OpCleanStop, Confirm: a.end})
			h.acked, h.loose = len(h.written), false
		}},
		{name: "torn and garbled sectors", cfg: crashenum.Config{PerPoint: 40, Seed: 2, Torn: true}, program: func(a *appender, h *history) {
			h.step(a, message("A", 0, body(18)))
			h.put(a, message("A", 0, body(18)), message("B", 1, body(18)), message("A", 0, "x"))
			a.sync()
			h.acked = len(h.written)
		}},
	} {
		t.Run(c.name, c.run)
	}
}

// fillSegment leaves less than one message's room in the first segment.
func fillSegment(a *appender) {
	for a.end < testSegment-600 {
		a.append(message("A", 0, body(5)))
	}
}

func epochChange(a *appender, h *history) {
	for e := ha.MasterEpoch(2); e < 4; e++ {
		barrier := Barrier{Epoch: e, Master: 1, Boot: a.rec.Identity.Boot, Store: a.rec.Identity.Store, Start: a.end, Clean: true}
		for _, old := range h.epochs() {
			barrier.Recent = barrier.Recent.Append(old)
		}
		h.put(a, BarrierDraft(barrier, Host{}, 1))
		a.sync()
		h.acked = len(h.written)
		h.epoch = e
		a.must(Op{Kind: OpSave, Name: NameHighestEpoch, Blob: EncodeHighestEpoch(e)})
		a.must(Op{Kind: OpSave, Name: NameEpochFile, Blob: EncodeEpochFile(h.epochs())})
		h.step(a, message("A", 0, "one"))
	}
}

// epochs derives the list from the written records.
func (h *history) epochs() (list ha.Epochs) {
	for _, b := range h.written {
		if r, _ := DecodeRecord(b); string(r.Topic) == BarrierTopic {
			if x, err := DecodeBarrier(r.Body); err == nil {
				list = list.Append(ha.EpochStart{Epoch: x.Epoch, Start: x.Start})
			}
		}
	}
	return list
}

// epochsAgree demands that the recovered list is the one the log tells.
func epochsAgree(a *appender, h *history) error {
	var inLog history
	inLog.written = records(a.t, a.readLog(), a.rec.Min, a.seg)
	if want := inLog.epochs(); !slices.Equal(a.rec.Epochs, want) {
		return fmt.Errorf("epochs %v, the log tells %v", a.rec.Epochs, want)
	}
	if a.rec.HighestEpoch < h.epoch && len(inLog.written) >= h.acked && h.epoch > 0 && a.rec.Epochs.Last().Epoch < h.epoch {
		return fmt.Errorf("highest epoch %d, %d was durable", a.rec.HighestEpoch, h.epoch)
	}
	return nil
}
