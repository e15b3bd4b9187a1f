package check

import (
	"fmt"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// Names of the kafka workload.
const (
	InconsistentOffsets = "inconsistent-offsets"  // one offset of a key with two different messages
	Duplicate           = "duplicate"             // one message at two or more offsets
	LostWrite           = "lost-write"            // acknowledged, below the highest read position, never read
	Unseen              = "unseen"                // acknowledged and not polled by anyone by the end
	G1a                 = "G1a"                   // polled although its send failed definitely
	IntPollSkip         = "int-poll-skip"         // within one poll: jumps over known messages
	IntNonmonotonicPoll = "int-nonmonotonic-poll" // within one poll: repeats or goes back
	PollSkip            = "poll-skip"             // between two polls of a process: jumps
	NonmonotonicPoll    = "nonmonotonic-poll"     // between two polls of a process: goes back
	NonmonotonicSend    = "nonmonotonic-send"     // a later send of a process landed lower
	G1cProcess          = "G1c-process"           // a cycle of reads and process order
	G1cRealtime         = "G1c-realtime"          // a cycle that needs real time: read before it was sent
)

// Names beyond Maelstrom, which looks at neither committed offsets nor where the
// first poll of a key begins.
const (
	StartSkip        = "start-skip"        // Beyond: the first poll of an assigned key began above its position
	StartBefore      = "start-before"      // Beyond: it answered messages below the position asked for
	UnknownMessage   = "unknown-message"   // Beyond: polled, and nobody has sent it
	CommittedAbove   = "committed-above"   // Beyond: above everything anyone committed: messages would be skipped
	CommittedUnknown = "committed-unknown" // Beyond: an offset that nobody committed
	LostCommit       = "lost-commit"       // Beyond: below an acknowledged commit, with no fault to excuse it
	StaleCommit      = "stale-commit"      // Beyond, allowed: the same while faults were at work
)

// Kafka judges a history of the kafka workload. faults says that something was
// broken during the main phase, so that a stale answer about committed offsets is
// legal there.
func Kafka(ops []*history.Op, faults bool) Result {
	k := newKafka(ops)
	k.offsets()
	k.writes()
	k.sessions()
	k.commits(faults)
	k.cycles()
	messages, polled := 0, 0
	for _, key := range sortedKeys(k.sends) {
		messages += len(k.sends[key])
	}
	for _, key := range sortedKeys(k.read) {
		polled += len(k.read[key])
	}
	lag, worst := k.lag()
	notes := []string{fmt.Sprintf("%d keys, %d messages sent, %d different ones polled", len(k.sends), messages, polled)}
	if worst != "" {
		notes = append(notes, fmt.Sprintf("worst realtime lag %.3fs (%s)", lag.Seconds(), worst))
	}
	if k.refused > 0 {
		notes = append(notes, fmt.Sprintf("the commit after %d polls was refused: Maelstrom counts such a poll as failed and may report poll-skip after it", k.refused))
	}
	r := k.result("kafka", notes...)
	if polled == 0 && r.Verdict == Valid {
		r.Verdict = Unknown
		r.Notes = append(r.Notes, "no message was polled, so nothing was shown")
	}
	return r
}

// kafka is the history of a run, arranged for the checks.
type kafka struct {
	collector
	ops     []*history.Op
	logs    map[string]*log
	sends   map[string]map[int64]*history.Op // by key and message
	read    map[string]map[int64]*history.Op // first poll that showed it
	refused int
}

func newKafka(ops []*history.Op) *kafka {
	k := &kafka{ops: ops, logs: map[string]*log{}, sends: map[string]map[int64]*history.Op{}, read: map[string]map[int64]*history.Op{}}
	for _, op := range ops {
		switch op.F {
		case history.Send:
			put(k.sends, op.Key, op.Msg, op)
			if op.Type == history.OK {
				k.log(op.Key).add(op.Offset, op.Msg, op)
			}
		case history.Poll:
			if op.CommitOK == history.Fail {
				k.refused++
			}
			for key, pairs := range op.Msgs {
				for _, p := range pairs {
					k.log(key).add(p.Offset, p.Msg, op)
					if k.read[key][p.Msg] == nil {
						put(k.read, key, p.Msg, op)
					}
				}
			}
		}
	}
	for _, l := range k.logs {
		l.sort()
	}
	return k
}

func put(m map[string]map[int64]*history.Op, key string, msg int64, op *history.Op) {
	if m[key] == nil {
		m[key] = map[int64]*history.Op{}
	}
	m[key][msg] = op
}

func (k *kafka) log(key string) *log {
	if k.logs[key] == nil {
		k.logs[key] = newLog()
	}
	return k.logs[key]
}

// offsets checks that each log is a function both ways.
func (k *kafka) offsets() {
	for _, key := range sortedKeys(k.logs) {
		l := k.logs[key]
		for _, off := range l.offsets {
			if vs := l.values[off]; len(vs) > 1 {
				k.add(InconsistentOffsets, vs[len(vs)-1].op, "key %s offset %d: %s", key, off, told(vs))
			}
		}
		for _, msg := range sortedKeys(l.places) {
			if offs := l.places[msg]; len(offs) > 1 {
				k.add(Duplicate, l.shown[msg], "key %s: message %d is at offsets %v", key, msg, offs)
			}
		}
	}
}

// writes checks what became of each send, and that each message had one.
func (k *kafka) writes() {
	for _, key := range sortedKeys(k.sends) {
		l, read := k.log(key), k.read[key]
		highest := -1
		for msg := range read {
			for _, off := range l.places[msg] {
				highest = max(highest, l.rank(off))
			}
		}
		for _, msg := range sortedKeys(k.sends[key]) {
			op, seen := k.sends[key][msg], read[msg]
			switch {
			case op.Type == history.Fail && seen != nil:
				k.add(G1a, seen, "key %s: message %d of %s, which failed (%s), was polled by %s", key, msg, name(op), op.Err, name(seen))
			case op.Type != history.OK || seen != nil:
			default:
				k.add(Unseen, op, "key %s: message %d at offset %d (%s) was never polled", key, msg, op.Offset, name(op))
				if l.rank(op.Offset) < highest {
					k.add(LostWrite, op, "key %s: message %d at offset %d (%s) was never polled, offset %d was", key, msg, op.Offset, name(op), l.offsets[highest])
				}
			}
		}
	}
	for _, key := range sortedKeys(k.read) {
		for _, msg := range sortedKeys(k.read[key]) {
			if k.sends[key][msg] == nil {
				k.add(UnknownMessage, k.read[key][msg], "key %s: message %d polled by %s was never sent", key, msg, name(k.read[key][msg]))
			}
		}
	}
}

// lag is the longest time by which a poll was behind the newest message known
// when it began, and where.
func (k *kafka) lag() (worst time.Duration, where string) {
	for _, l := range k.logs {
		l.knowledge()
	}
	for _, op := range k.ops {
		if op.F != history.Poll || op.Msgs == nil {
			continue
		}
		for _, key := range sortedKeys(op.Positions) {
			l := k.logs[key]
			if l == nil {
				continue
			}
			next := l.rankFrom(op.Positions[key])
			for _, p := range op.Msgs[key] {
				next = max(next, l.rank(p.Offset)+1)
			}
			if next < len(l.known) && op.Invoked-l.known[next] > worst {
				worst, where = op.Invoked-l.known[next], fmt.Sprintf("key %s, %s", key, name(op))
			}
		}
	}
	return worst, where
}
