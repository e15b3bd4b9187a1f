package broker

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
	"pgregory.net/rapid"
)

// TestOptionsRefused: contradictions are named with the property and the remedy.
func TestOptionsRefused(t *testing.T) {
	cases := []struct {
		want string
		tune func(o *Options)
	}{
		{"minInSyncReplicas 4 is above totalReplicas 3", func(o *Options) { o.MinInSyncReplicas = 4 }},
		{"inSyncReplicas 4 is not in 1..totalReplicas 3", func(o *Options) { o.AllAckInSyncStateSet, o.InSyncReplicas = false, 4 }},
		{"writeLeaseMillis 1s is too short", func(o *Options) { o.LeaseDuration = time.Second }},
		{"writeLease=offered", func(o *Options) { o.WriteLease = LeaseOffered }},
		{"ASYNC_MASTER contradicts allAckInSyncStateSet", func(o *Options) { o.BrokerRole = AsyncMaster }},
		{"controllerAddr is empty", func(o *Options) { o.ControllerAddr = nil }},
		{"is this broker's own address", func(o *Options) { o.ControllerAddr = []string{o.Address} }},
		{"twice", func(o *Options) { o.ControllerAddr = []string{"a:1", "a:1"} }},
		{"is not host:port", func(o *Options) { o.ControllerAddr = []string{"a"} }},
		{"controllerAddr \"a:b\" is not host:port", func(o *Options) { o.ControllerAddr = []string{"a:b"} }},
		{"controllerAddr \"a:99999\" is not host:port", func(o *Options) { o.ControllerAddr = []string{"a:99999"} }},
		{"namesrvAddr \"1.2.3.4\" is not host:port", func(o *Options) { o.NamesrvAddr = []string{"1.2.3.4"} }},
		{"brokerAddr \"0.0.0.0:1\" is nothing clients can dial", func(o *Options) { o.Address = "0.0.0.0:1" }},
		{"brokerAddr \"a b:1\" is nothing clients can dial", func(o *Options) { o.Address = "a b:1" }},
		{"haServerAddr \"\" is nothing slaves can dial", func(o *Options) { o.HAAddress = "" }},
		{"brokerName \"\\xff\": use 1 to 127", func(o *Options) { o.BrokerName = "\xff" }},
		{"brokerName \"..\": use 1 to 127", func(o *Options) { o.BrokerName = ".." }},
		{"fileReservedTime -1h0m0s is not in 1s..876000h0m0s (a plain number is hours)", func(o *Options) { o.FileReservedTime = -time.Hour }},
		{"brokerClusterName \"C C\": use 1 to 127", func(o *Options) { o.BrokerClusterName = "C C" }},
		{"minInSyncReplicas -1 is negative", func(o *Options) { o.MinInSyncReplicas = -1 }},
		{"needs a port of its own", func(o *Options) { o.HAAddress = o.Address }},
		{"brokerName is empty", func(o *Options) { o.BrokerName = "" }},
		{"mappedFileSizeCommitLog 7", func(o *Options) { o.MappedFileSizeCommitLog = 7 }},
		{"haHousekeepingInterval", func(o *Options) { o.HAHousekeepingInterval = time.Second }},
		{"below two heartbeats", func(o *Options) { o.ControllerHeartBeatTimeout = o.BrokerHeartbeatInterval }},
		{"ackClass unknown", func(o *Options) { o.AckClass = ha.ClassUnknown }},
	}
	for _, c := range cases {
		o := testOptions(1)
		if err := o.Validate(); err != nil {
			t.Fatalf("the test's own options: %v", err)
		}
		c.tune(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q in %v", c.want, err)
		}
	}
	if o := DefaultOptions(); o.MinInSync() != 2 || o.FlushDiskType != SyncFlush || !o.AllAckInSyncStateSet || o.WriteLease != LeaseRequired {
		t.Error("the defaults are not the safe ones")
	}
}

// TestFifo compares the ring with a slice.
func TestFifo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var model []int
		n, seq := 0, uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1, 2:
				f.push(n)
				model = append(model, n)
				n++
			case 3, 4:
				if len(model) > 0 {
					if got := f.pop(); got != model[0] {
						t.Fatalf("pop %d, want %d", got, model[0])
					}
					model, seq = model[1:], seq+1
				}
			case 5:
				f.shrink()
			}
			if f.len() != len(model) {
				t.Fatalf("len %d, want %d", f.len(), len(model))
			}
			for i, want := range model {
				if got := *f.at(seq + uint64(i)); got != want {
					t.Fatalf("at %d: %d, want %d", i, got, want)
				}
			}
		}
	})
}

// TestTail: bytes are found where they were placed, slices stay valid, and released
// chunks are gone.
func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tl tail
		var log []byte
		base, end := ha.LogOffset(0), ha.LogOffset(0)
		var kept [][2]any
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "op") == 0 {
				off := ha.LogOffset(rapid.Int64Range(int64(base), int64(end)).Draw(t, "release"))
				tl.release(off)
				base = tl.start(end)
				if base > off {
					t.Fatalf("released up to %d, asked for %d", base, off)
				}
				continue
			}
			n := rapid.IntRange(1, 40_000).Draw(t, "n")
			dst := tl.extend(end, n)
			if len(dst) != n {
				t.Fatalf("room of %d, want %d", len(dst), n)
			}
			for i := range dst {
				dst[i] = byte(int(end) + i*7)
			}
			log = append(log, dst...)
			kept = append(kept, [2]any{dst, append([]byte(nil), dst...)})
			end += ha.LogOffset(n)
		}
		for off := base; off < end; {
			run := tl.run(off, 1<<20)
			if len(run) == 0 || !bytes.Equal(run, log[off:int(off)+len(run)]) {
				t.Fatalf("wrong bytes at %d", off)
			}
			off += ha.LogOffset(len(run))
		}
		for _, k := range kept {
			if !bytes.Equal(k[0].([]byte), k[1].([]byte)) {
				t.Fatal("a slice that was handed out changed")
			}
		}
		if tl.run(end, 1) != nil || base > 0 && tl.run(base-1, 1) != nil {
			t.Fatal("bytes outside the tail")
		}
	})
}

// TestLease: the deadline is grant less margin less elapsed since the request left;
// only exact authority and newer generations install (HA contracts 6.7).
func TestLease(t *testing.T) {
	me := ha.Authority{Broker: 1, Epoch: 5}
	grant := func(gen uint64) wire.LeaseGrant {
		return wire.LeaseGrant{Broker: 1, Epoch: 5, Generation: gen, DurationMillis: 10_000, MarginMillis: 2000}
	}
	at := func(ms int64) node.Time { return node.Time(ms) * node.Time(time.Millisecond) }
	l := lease{}
	if l.held(at(0)) {
		t.Fatal("held before any grant")
	}
	if !l.install(grant(3), me, at(1000), at(2500)) || l.deadline != at(9000) {
		t.Fatalf("elapsed 1500 ms of 8000: deadline %d", l.deadline)
	}
	if l.install(grant(3), me, at(2600), at(2700)) || l.install(grant(2), me, at(2600), at(2700)) {
		t.Error("an old generation was installed")
	}
	if l.install(grant(4), ha.Authority{Broker: 1, Epoch: 6}, at(2600), at(2700)) {
		t.Error("another authority was installed")
	}
	if l.install(grant(9), me, at(1000), at(9000)) {
		t.Error("a grant that was over was installed")
	}
	if !l.held(at(8999)) || l.held(at(9000)) {
		t.Error("the deadline is not exact")
	}
	l.fence()
	if l.held(at(2000)) || l.install(grant(3), me, at(3000), at(3001)) {
		t.Error("a delayed grant re-opened a fenced lease")
	}
	if !l.install(grant(4), me, at(3000), at(3001)) {
		t.Error("a newer grant was refused")
	}
	off := lease{mode: LeaseOff}
	if !off.held(at(1 << 40)) {
		t.Error("off needs no lease")
	}
}

// TestQueueMarks: entries become visible with confirm, are filed in batches, and
// leave memory only when they are both.
func TestQueueMarks(t *testing.T) {
	var qt queueTable
	qt.reset([]storage.QueueBounds{{Topic: "T", Queue: 0, Min: 3, Max: 9, Visible: 5}}, 1000)
	q := qt.open("T", 0)
	for i := range 10 {
		qt.enter(q, queueEntry{log: ha.LogOffset(1000 + i*100), size: 100}, 0)
	}
	qt.show(900)
	if q.seen != 5 {
		t.Fatalf("shows %d below the recovered end", q.seen)
	}
	qt.show(1350)
	if q.seen != 12 { // 9 recovered, three whole records above
		t.Fatalf("shows %d at 1350", q.seen)
	}
	if got := len(qt.collect(1500)); got != 5 || qt.filed(2000) != 1000 {
		t.Fatalf("%d entries collected, filed %d", got, qt.filed(2000))
	}
	qt.done = qt.sent
	qt.evict(1250)
	if _, ok := q.entry(10); ok {
		t.Error("an entry outlived its record")
	}
	if e, ok := q.entry(12); !ok || e.log != 1300 {
		t.Errorf("entry 12: %+v %v", e, ok)
	}
	qt.evict(5000)
	if q.recent.len() != 7 {
		t.Errorf("%d entries left: only filed and visible ones may go", q.recent.len())
	}
	qt.check(1350)
}

// TestWritesEndWithRecords: however much has piled up, a write ends with a whole
// record, because its end becomes a floor.
func TestWritesEndWithRecords(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.MappedFileSizeCommitLog, o.MaxTailBytes = 32<<20, 64<<20 })
	m := w.master()
	ends := map[ha.LogOffset]bool{0: true}
	w.diskTime = func(op storage.Op) time.Duration {
		if op.Kind == storage.OpAppend {
			return 150 * time.Millisecond
		}
		return time.Microsecond
	}
	c := w.client(m)
	for i := range 12 {
		c.send(strings.Repeat(string(rune('a'+i)), 900_000))
	}
	w.run(50 * time.Millisecond)
	off := ha.LogOffset(0)
	for _, b := range m.b.tail.chunks {
		for p := 0; p < len(b.buf); {
			f := storage.Next(b.buf[p:], b.base+ha.LogOffset(p), storage.Check{})
			p += f.Size
			off = b.base + ha.LogOffset(p)
			ends[off] = true
		}
	}
	writes := 0
	for end := m.b.log.written; m.b.log.written < off; {
		if !w.step() {
			t.Fatal("the log stopped")
		}
		if m.b.log.written != end {
			end = m.b.log.written
			writes++
			if !ends[end] {
				t.Fatalf("written up to %d, inside a record", end)
			}
		}
	}
	if writes < 3 {
		t.Errorf("%d bytes went in %d writes: the limit was not reached", off, writes)
	}
}

// TestConditions: each failing condition is named; readiness and writability are two
// answers (C2).
func TestConditions(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.ctl.up = false
	for _, m := range w.nodes {
		m.start()
	}
	w.run(2 * time.Second)
	failing := func(m *machine, writable bool) (out []string) {
		for _, c := range m.b.Conditions() {
			if !c.OK && (c.Ready && !writable || c.Writable && writable) {
				out = append(out, c.Name)
			}
		}
		return out
	}
	if got := strings.Join(failing(w.nodes[0], false), " "); got != "identity registered role" {
		t.Errorf("not ready for %q", got)
	}
	w.ctl.up, w.ctl.leases = true, false
	w.until("a set of three", 30*time.Second, func() bool { return len(w.ctl.set) == 3 && w.master() != nil && w.converged() })
	if got := strings.Join(failing(w.master(), true), " "); got != "lease" {
		t.Errorf("not writable for %q", got)
	}
	for _, m := range w.nodes {
		if got := failing(m, false); len(got) > 0 {
			t.Errorf("b%d is not ready: %v", m.n, got)
		}
	}
	if got := strings.Join(failing(w.slaves()[0], true), " "); got != "master lease minInSyncReplicas" {
		t.Errorf("a slave is not writable for %q", got)
	}
	names := map[string]bool{}
	w.master().b.Gauges(func(name string, v float64) { names[name] = true })
	for _, want := range []string{"broker_commitlog_max_offset", "broker_confirm_offset", "broker_master_epoch", "broker_sync_state_set_size", "broker_replica_lag_bytes"} {
		if !names[want] {
			t.Errorf("gauge %s is missing", want)
		}
	}
}

// TestHAAdmin: codes 906, 907 and 1007 as admin tools read them.
func TestHAAdmin(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	ask := func(code int32) *wire.Frame {
		c := w.client(m)
		var got *wire.Frame
		c.s.onRecv[0] = func(f *wire.Frame) { got = f }
		c.s.send(false, wire.NewRequest(code, 5, nil, nil))
		w.until("an answer", time.Second, func() bool { return got != nil })
		return got
	}
	var ex wire.ExchangeHAInfo
	must(ask(wire.ReqExchangeHAInfo).Header(&ex))
	if ex.MasterHAAddress != m.o.HAAddress || ex.MasterAddress != m.o.Address {
		t.Errorf("906: %+v", ex)
	}
	var st wire.HARuntimeInfo
	must(wire.UnmarshalBody(ask(wire.ReqGetHAStatus).Body, &st))
	if !st.Master || st.InSyncSlaveNums != 2 || len(st.Connections) != 2 || st.Connections[0].Diff != 0 || !st.Connections[0].InSync {
		t.Errorf("907: %+v", st)
	}
	var ec wire.EpochCache
	must(wire.UnmarshalBody(ask(wire.ReqGetEpochCache).Body, &ec))
	if ec.BrokerName != "g" || len(ec.EpochList) != 1 || ec.EpochList[0].EndOffset != wire.OpenEpochEnd || ec.MaxOffset != m.b.log.end {
		t.Errorf("1007: %+v", ec)
	}
}
