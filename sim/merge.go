package sim

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/event"
)

// How far apart entries may be that stand on one line.
const (
	// repeatGap is the silence after which a repeated event begins a new line.
	repeatGap = int64(5_000_000_000)
	// spreadLimit is how long a change may take from one node to the others.
	spreadLimit = int64(1_500_000_000)
)

// merging says which entries of a trace belong together.
type merging uint8

const (
	mergeNever  merging = iota
	mergeSame           // the same thing at several nodes, once at each: one line
	mergeRepeat         // again and again at one node: one line with a count
	mergeBoth           // again and again at several nodes: one line with a count
)

// mergingOf is how the events of a kind are merged.
func mergingOf(k event.Kind) merging {
	switch k {
	case event.Elected, event.SetAltered, event.BrokerRegistered, event.ElectionFailed, event.MembersChanged, event.LeaderChanged,
		event.SnapshotInstalled, event.SnapshotTaken, event.RouteChanged, event.RouteLearned, event.Rolled, event.Expired, event.BrokerExpired:
		return mergeSame
	case event.RequestRefused, event.HandshakeRefused, event.RegisterRefused, event.AlterRefused, event.ChunkRefused, event.RegistrationIgnored,
		event.FrameRejected, event.LeaseGranted, event.LeaseInstalled, event.RoleNotified:
		return mergeRepeat
	case event.ClientRetry:
		return mergeBoth
	}
	return mergeNever
}

// committed reports whether every controller that applies the log reports the event.
func committed(k event.Kind) bool {
	switch k {
	case event.Elected, event.SetAltered, event.BrokerRegistered, event.MembersChanged:
		return true
	}
	return false
}

// line is one line of a merged timeline: an entry, and how often it came.
type line struct {
	Entry
	count int
	last  int64 // when the newest of them was
}

// merger turns a trace into lines.
type merger struct {
	lines   []*line
	same    map[string]*line // open lines of what happens once at each node
	repeats map[string]*line // open lines of what happens again and again
	known   map[string]bool  // committed changes that some controller has told
}

// merged is the trace with what belongs together on one line, in the order in which
// the lines begin. A fault ends what repeats: after it one wants to know whether it
// goes on.
func merged(entries []Entry) []*line {
	f := &merger{same: map[string]*line{}, repeats: map[string]*line{}, known: map[string]bool{}}
	for _, e := range entries {
		how := mergeNever
		if e.What == "event" {
			how = mergingOf(e.Event.Kind)
		}
		switch {
		case how != mergeNever:
			f.event(e, how)
		case e.What == "life" && f.starts(&e):
		default:
			if e.What == "fault" {
				clear(f.repeats)
			}
			f.lines = append(f.lines, &line{Entry: e, count: 1, last: e.At})
		}
	}
	return f.lines
}

// starts merges the starts of several nodes, and "booting" with the "up" of the same
// instant; it reports whether the entry is such an "up".
func (f *merger) starts(e *Entry) bool {
	life, up := strings.CutSuffix(e.Text, " up")
	if n := len(f.lines); up && n > 0 {
		l := f.lines[n-1]
		if l.What == "life" && l.Node == e.Node && l.At == e.At && l.Text == life+" booting" {
			f.lines = f.lines[:n-1]
			f.put(f.same, e.Text, *e, mergeSame)
			return true
		}
	}
	return false
}

// event puts an event on the open line that it belongs to, or begins one.
func (f *merger) event(e Entry, how merging) {
	key := shared(&e, how)
	if l := f.same[key]; committed(e.Event.Kind) {
		if f.known[key] && (l == nil || !l.takes(&e, how)) {
			e.Text = "applies what others have, the first: " + e.Text
			key, how = e.Node+" applies", mergeRepeat
		} else {
			f.known[key] = true
		}
	}
	open := f.repeats
	if how == mergeSame {
		open = f.same
	}
	f.put(open, key, e, how)
}

// put adds an entry to the open line of its key, or begins one.
func (f *merger) put(open map[string]*line, key string, e Entry, how merging) {
	l := open[key]
	if l == nil || !l.takes(&e, how) {
		l = &line{Entry: e}
		open[key] = l
		f.lines = append(f.lines, l)
	}
	if !slices.Contains(l.Nodes, e.Node) {
		l.Nodes = append(l.Nodes, e.Node)
	}
	l.count, l.last = l.count+1, e.At
}

// shared is what entries on one line have in common. Numbers that run on are taken out
// of the entry's text first.
func shared(e *Entry, how merging) string {
	switch x := e.Event; x.Kind {
	case event.ClientRetry: // Count is the operation's ticket
		x.Count, x.Text = 0, withoutNumber(x.Text)
		e.Text = x.String()
	case event.LeaseGranted, event.LeaseInstalled: // Count is the grant's generation
		x.Count = 0
		e.Text = x.String()
	}
	if how == mergeRepeat {
		return e.Node + " " + e.Text
	}
	return e.Text
}

// takes reports whether an entry still belongs to the line.
func (l *line) takes(e *Entry, how merging) bool {
	if how == mergeSame {
		return e.At-l.At <= spreadLimit && !slices.Contains(l.Nodes, e.Node)
	}
	return e.At-l.last <= repeatGap
}

// text is what the line says behind its columns.
func (l *line) text() string {
	who := l.Node
	switch {
	case l.What != "fault" && len(l.Nodes) > 0:
		who = strings.Join(l.Nodes, ",")
	case who == "":
		who = "world"
	}
	if l.count > max(1, len(l.Nodes)) || l.count > 1 && l.last-l.At > spreadLimit {
		return fmt.Sprintf("%s %s (%d times until %s)", who, l.Text, l.count, seconds(l.last))
	}
	return who + " " + l.Text
}

// withoutNumber is the text of a retry without its running number: "send try 3 after …"
// becomes "send again after …".
func withoutNumber(text string) string {
	op, rest, ok := strings.Cut(text, " try ")
	if !ok {
		return text
	}
	_, why, ok := strings.Cut(rest, " after ")
	if !ok {
		return text
	}
	return op + " again after " + why
}
