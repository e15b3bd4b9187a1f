package client

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/node/wire"
	"lockstep/storage"
)

// TestOutcomesAreTrue plays a world that knows what was really stored: brokers
// append or not, answer, answer late, or not at all; streams end; name servers
// fail. Whatever happens, the client's word must agree with the truth:
//
//	done      stored, and at most 1 + UnknownTries copies
//	not done  never stored, now or later
//	unknown   at most UnknownTries copies, one more when it says "stored, unproven"
func TestOutcomesAreTrue(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, func(o *Options) { o.NamesrvAddrs = []string{ns1, ns2}; o.MaxInFlight = 3 })
		masters := [2]string{addrA, addrB}
		r.routes["T"] = routed(2, "ga", masters[0], "gb", masters[1])
		w := world{rig: r, copies: map[string]int{}, keyOf: map[Ticket]string{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(t)
		}
		// Everything ends within the budget, whatever is broken.
		r.advance(r.c.opt.SendMsgTimeout)
		if n := r.c.Unfinished(); n != 0 {
			t.Fatalf("%d operations did not end", n)
		}
		// What the brokers still hold may be stored after the client's word.
		for _, f := range w.held {
			w.store(f)
		}
		if len(r.outcomes) != len(w.keyOf) {
			t.Fatalf("%d outcomes of %d sends", len(r.outcomes), len(w.keyOf))
		}
		for _, o := range r.outcomes {
			seen[o.Status.String()]++
			w.judge(t, o)
		}
	})
	for _, s := range []Status{Done, NotDone, Unknown} {
		if seen[s.String()] == 0 {
			t.Errorf("no send ended %s: the world is too kind or too hard", s)
		}
	}
}

// world is the truth beside a rig.
type world struct {
	*rig
	copies map[string]int // stored copies by key
	keyOf  map[Ticket]string
	held   []sentFrame // received by a broker, neither stored nor refused yet
	late   []func()    // answers on their way
	sends  int
}

func (w *world) store(f sentFrame) {
	h, err := f.SendRequest()
	if err != nil {
		w.t.Fatal(err)
	}
	key, _ := storage.Property([]byte(h.Properties), "UNIQ_KEY")
	w.copies[string(key)]++
}

func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 11).Draw(t, "action") {
	case 0, 1, 2:
		w.sends++
		key := fmt.Sprintf("key-%d", w.sends)
		w.keyOf[w.send(Message{Key: key})] = key
	case 3, 4, 5, 6:
		if len(w.sent) > 0 {
			w.brokerActs(t, w.next())
		}
	case 7:
		if len(w.late) > 0 {
			do := w.late[0]
			w.late = w.late[1:]
			do()
		}
	case 8:
		addr := rapid.SampledFrom([]string{addrA, addrB, addrC, ns1, ns2}).Draw(t, "stream")
		if _, live := w.addr[w.session[addr]]; live {
			w.down(addr)
		}
	case 9:
		addr := rapid.SampledFrom([]string{addrA, addrB, addrC, ns1, ns2}).Draw(t, "host")
		w.refuse[addr], w.hang[addr] = rapid.Bool().Draw(t, "refuse"), rapid.Bool().Draw(t, "hang")
		w.silent[addr] = rapid.Bool().Draw(t, "silent")
	case 10:
		masters := rapid.SliceOfN(rapid.SampledFrom([]string{"", addrA, addrB, addrC}), 2, 2).Draw(t, "masters")
		w.routes["T"] = routed(2, "ga", masters[0], "gb", masters[1])
	default:
		w.advance(time.Duration(rapid.IntRange(1, 900).Draw(t, "ms")) * time.Millisecond)
	}
}

// brokerActs is one broker's treatment of one send.
func (w *world) brokerActs(t *rapid.T, f sentFrame) {
	if f.Head.Code != wire.ReqSendMessageV2 {
		return
	}
	answer := func(do func()) {
		live := func() {
			if _, ok := w.addr[f.session]; ok {
				do()
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "answer") {
		case 0:
			w.late = append(w.late, live)
		case 1: // lost
		default:
			live()
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "fate") {
	case 0, 1:
		w.store(f)
		answer(func() { w.stored(f, 0, 1) })
	case 2:
		w.store(f)
		code := rapid.SampledFrom([]int32{10, 11, 12}).Draw(t, "unproven")
		answer(func() { w.stored(f, code, 1) })
	case 3:
		code := rapid.SampledFrom([]int32{2, 13, 14, 16, 17, 26, 29, 1500}).Draw(t, "refusal")
		answer(func() { w.answer(f, code, "no", nil, nil) })
	case 4:
		if rapid.Bool().Draw(t, "doubt") {
			w.store(f)
		}
		answer(func() { w.answer(f, 1, "something failed", nil, nil) })
	default:
		w.held = append(w.held, f)
	}
}

func (w *world) judge(t *rapid.T, o Outcome) {
	n, limit := w.copies[w.keyOf[o.Ticket]], o.UnknownTries()
	switch o.Status {
	case Done:
		if n == 0 {
			t.Fatalf("%s: done, but never stored", &o)
		}
		limit++
	case NotDone:
		if n != 0 {
			t.Fatalf("%s: not done, but %d copies were stored; tries %+v", &o, n, o.Tries)
		}
	case Unknown:
		if o.Code >= 10 && o.Code <= 12 {
			limit++
			if n == 0 {
				t.Fatalf("%s: said to be stored, but is not", &o)
			}
		}
	}
	if n > limit {
		t.Fatalf("%s: %d copies, at most %d; tries %+v", &o, n, limit, o.Tries)
	}
	if o.Finished.Sub(o.Started) > w.c.opt.SendMsgTimeout {
		t.Fatalf("%s took %v", &o, o.Finished.Sub(o.Started))
	}
}
