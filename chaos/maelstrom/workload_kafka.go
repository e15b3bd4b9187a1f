package maelstrom

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/history"
)

// Constants of the kafka workload.
const (
	assignShare = 64               // one operation in so many is an assign
	joinShare   = 3                // and of these one in so many takes all unpolled keys too
	crashEvery  = 30 * time.Second // divided by the threads: a client is thrown away
)

// kafka sends to logs and polls them. observe and next run on one goroutine.
type kafka struct {
	o       *Options
	slots   []slot
	nextKey int
	crashAt time.Duration // of the run's schedule: the next crash
	crashes int

	acked  map[string]int64 // highest offset known by key
	polled map[string]int64 // highest offset polled by key
	first  []string         // keys in the order they were first sent to
	until  time.Time        // end of the final phase
	goal   map[string]int64 // what the final polls must reach
}

// slot is one active key.
type slot struct {
	key    int
	writes int
}

func newKafka(o *Options) *kafka {
	k := &kafka{o: o, acked: map[string]int64{}, polled: map[string]int64{}}
	for range o.KeyCount {
		k.slots = append(k.slots, k.fresh())
	}
	return k
}

func (k *kafka) fresh() slot {
	k.nextKey++
	return slot{key: k.nextKey - 1}
}

func (k *kafka) next(i, _ int) *history.Op {
	src := draw(k.o, "kafka", i)
	// Each active key is twice as likely as its neighbour.
	pick := src.Intn(1<<len(k.slots) - 1)
	at := 0
	for pick >= 1<<(at+1)-1 {
		at++
	}
	s := &k.slots[at]
	key := strconv.Itoa(s.key)
	send := src.Chance(1, 2)
	if src.Intn(assignShare) == 0 {
		return &history.Op{F: history.Assign, Keys: k.assigned(key, src.Intn(joinShare) == 0)}
	}
	if !send {
		return &history.Op{F: history.Poll}
	}
	if s.writes == 0 {
		k.first = append(k.first, key)
	}
	s.writes++
	op := &history.Op{F: history.Send, Key: key, Msg: int64(s.writes)}
	if s.writes >= k.o.MaxWritesPerKey {
		*s = k.fresh()
	}
	return op
}

// assigned is the operation's key, or with it every key with acknowledged
// messages that nobody polled.
func (k *kafka) assigned(key string, join bool) []string {
	keys := map[string]bool{key: true}
	for _, other := range k.first {
		if acked, ok := k.acked[other]; ok && join {
			if polled, ok := k.polled[other]; !ok || polled < acked {
				keys[other] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// crash is the time of the schedule at which a client is to be thrown away next,
// after the given one: every 30 s by the number of threads on average.
func (k *kafka) crash(after time.Duration) time.Duration {
	gap := draw(k.o, "crash", k.crashes).Between(0, 2*int64(crashEvery)/int64(k.o.threads))
	k.crashes++
	return after + time.Duration(gap)
}

func (k *kafka) observe(op *history.Op) {
	if op.F == history.Send && op.Type == history.OK {
		raise(k.acked, op.Key, op.Offset)
	}
	for key, pairs := range op.Msgs {
		for _, p := range pairs {
			raise(k.acked, key, p.Offset)
			raise(k.polled, key, p.Offset)
		}
	}
}

func raise(m map[string]int64, key string, to int64) {
	if old, ok := m[key]; !ok || to > old {
		m[key] = to
	}
}

// begin fixes what the final polls must reach. No operation runs then.
func (k *kafka) begin(now time.Time) {
	k.until, k.goal = now.Add(k.o.FinalLimit), maps.Clone(k.acked)
}

// final throws the client away, assigns every key from the start, and polls until
// all that is known was read or time is up. It must not touch what observe does.
func (k *kafka) final(_ int, prev *history.Op) *history.Op {
	switch {
	case prev == nil:
		return &history.Op{F: history.Crash}
	case prev.F == history.Crash:
		return &history.Op{F: history.Assign, Keys: slices.Clone(k.first), Seek: true}
	case time.Now().After(k.until):
		return nil
	case prev.Type == history.Info, prev.F == history.Assign && prev.Type != history.OK:
		// After a poll that nobody answered the client is another, which holds nothing.
		return &history.Op{F: history.Assign, Keys: slices.Clone(k.first), Seek: true}
	case prev.F == history.Poll && prev.Msgs != nil && k.reached(prev):
		return nil
	}
	return &history.Op{F: history.Poll}
}

// reached reports whether the positions after a poll are beyond all that is known.
func (k *kafka) reached(op *history.Op) bool {
	for key, goal := range k.goal {
		next := op.Positions[key]
		for _, p := range op.Msgs[key] {
			next = max(next, p.Offset+1)
		}
		if next <= goal {
			return false
		}
	}
	return true
}

func (k *kafka) check(ops []*history.Op, faults bool) check.Result { return check.Kafka(ops, faults) }

func (k *kafka) worker(w *worker) performer {
	return &kafkaWorker{worker: w, positions: map[string]int64{}}
}

// kafkaWorker is a consumer and producer: it holds the keys assigned to it and
// the next offset of each.
type kafkaWorker struct {
	*worker
	positions map[string]int64
}

func (w *kafkaWorker) do(op *history.Op) {
	switch op.F {
	case history.Send:
		err := w.call(map[string]any{"type": "send", "key": op.Key, "msg": op.Msg}, map[string]any{"offset": &op.Offset})
		settle(op, err, false)
	case history.Poll:
		w.poll(op)
	case history.Assign:
		w.assign(op)
	default: // a crash: the scheduler opens a new client after it
		op.Type, op.Err = history.Info, "crashed by the generator"
	}
}

func (w *kafkaWorker) call(request, want map[string]any) error {
	return w.client.Call(w.node, w.o.Timeout(), request, want)
}

// poll reads on, and commits what it read. The messages stay in the operation
// even when the commit fails: they were seen.
func (w *kafkaWorker) poll(op *history.Op) {
	op.Positions = maps.Clone(w.positions)
	var answer map[string][][]int64
	err := w.call(map[string]any{"type": "poll", "offsets": op.Positions}, map[string]any{"msgs": &answer})
	if err == nil {
		op.Msgs, err = pairs(answer)
	}
	if err != nil {
		op.Msgs = nil
		settle(op, err, false)
		return
	}
	op.Commit = map[string]int64{}
	for key, ps := range op.Msgs {
		for _, p := range ps {
			raise(w.positions, key, p.Offset+1)
			raise(op.Commit, key, p.Offset)
		}
	}
	if len(op.Commit) > 0 {
		op.CommitAt = w.rec.Place()
		err = w.call(map[string]any{"type": "commit_offsets", "offsets": op.Commit}, nil)
		op.CommitOK = outcome(err, false)
	}
	settle(op, err, false)
}

// maxMessages is how many messages one poll may answer.
const maxMessages = 10_000_000

func pairs(answer map[string][][]int64) (map[string][]history.Pair, error) {
	out := map[string][]history.Pair{}
	total := 0
	for key, list := range answer {
		if total += len(list); total > maxMessages {
			return nil, &BadReply{fmt.Sprintf("to poll: more than %d messages", maxMessages)}
		}
		for _, p := range list {
			if len(p) != 2 {
				return nil, &BadReply{fmt.Sprintf("to poll: key %s: %v is no pair of offset and message", key, p)}
			}
			out[key] = append(out[key], history.Pair{Offset: p[0], Msg: p[1]})
		}
	}
	return out, nil
}

// assign takes keys. Keys already held keep their position; new ones begin after
// their committed offset, or at 0 when there is none, or at 0 all with Seek.
func (w *kafkaWorker) assign(op *history.Op) {
	var committed map[string]int64
	err := w.call(map[string]any{"type": "list_committed_offsets", "keys": op.Keys}, map[string]any{"offsets": &committed})
	if err != nil {
		settle(op, err, true)
		return
	}
	if committed == nil {
		committed = map[string]int64{}
	}
	op.Committed, op.Positions = committed, map[string]int64{}
	for _, key := range op.Keys {
		position, held := w.positions[key]
		c, known := committed[key]
		switch {
		case op.Seek:
			position = 0
		case !held && known:
			position = c + 1
		}
		op.Positions[key] = position
	}
	w.positions = maps.Clone(op.Positions)
	settle(op, nil, false)
}
