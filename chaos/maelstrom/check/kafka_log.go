package check

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// entry is a message that somebody was shown at an offset, and who first.
type entry struct {
	msg int64
	op  *history.Op
}

// log is what is known of one key: from the answers to sends and from all polls.
// Positions are ranks among the known offsets, so gaps do not count.
type log struct {
	values  map[int64][]entry // by offset
	places  map[int64][]int64 // offsets by message
	shown   map[int64]*history.Op
	earlier map[int64]time.Duration // by offset: when it was first known
	offsets []int64                 // ascending, once sorted
	known   []time.Duration         // by rank: when this or a higher one was first known
}

func newLog() *log {
	return &log{values: map[int64][]entry{}, places: map[int64][]int64{}, shown: map[int64]*history.Op{}, earlier: map[int64]time.Duration{}}
}

func (l *log) add(offset, msg int64, op *history.Op) {
	if at, ok := l.earlier[offset]; !ok || op.Completed < at {
		l.earlier[offset] = op.Completed
	}
	if !slices.ContainsFunc(l.values[offset], func(e entry) bool { return e.msg == msg }) {
		l.values[offset] = append(l.values[offset], entry{msg, op})
		l.places[msg] = append(l.places[msg], offset)
		l.shown[msg] = op
	}
}

func (l *log) sort() { l.offsets = sortedKeys(l.values) }

// rank of a known offset.
func (l *log) rank(offset int64) int { return l.rankFrom(offset) }

// rankFrom is the rank of the first known offset that is not below offset.
func (l *log) rankFrom(offset int64) int {
	return sort.Search(len(l.offsets), func(i int) bool { return l.offsets[i] >= offset })
}

// between tells the messages with ranks in [from, to).
func (l *log) between(from, to int) string {
	var out []string
	for r := from; r < to; r++ {
		if len(out) == 3 {
			out = append(out, fmt.Sprintf("and %d more", to-r))
			break
		}
		out = append(out, fmt.Sprintf("%d at offset %d", l.values[l.offsets[r]][0].msg, l.offsets[r]))
	}
	return strings.Join(out, ", ")
}

// knowledge fills known.
func (l *log) knowledge() {
	l.known = make([]time.Duration, len(l.offsets))
	for r := len(l.offsets) - 1; r >= 0; r-- {
		l.known[r] = l.earlier[l.offsets[r]]
		if r+1 < len(l.known) {
			l.known[r] = min(l.known[r], l.known[r+1])
		}
	}
}

func told(es []entry) string {
	var out []string
	for _, e := range es {
		out = append(out, fmt.Sprintf("message %d (%s)", e.msg, name(e.op)))
	}
	return strings.Join(out, ", ")
}
