package sim

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/event"
	"lockstep/netsim"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Entry is one line of a trace.
type Entry struct {
	At   int64
	Node string // "" for the world
	// What is "event", "send", "take", "disk", "fault" or "life".
	What string
	Text string
	// Nodes are all that a fault touches.
	Nodes []string
	// Event is set for events.
	Event event.Event
}

// Recorder is an Observer that keeps what happened, for a reader. What it keeps
// is bounded: the oldest entries are dropped beyond Max.
type Recorder struct {
	// Max bounds the entries kept; 0 means maxTrace.
	Max int
	// Frames and Disk say whether frames and disk operations are kept too; events,
	// faults and lives always are.
	Frames, Disk bool

	w       *World
	entries []Entry
	first   int // oldest entry in the ring
	dropped int
}

// maxTrace bounds a Recorder by default.
const maxTrace = 200_000

// NewRecorder returns a recorder that observes w.
func NewRecorder(w *World) *Recorder {
	r := &Recorder{w: w}
	w.Observe(r)
	return r
}

// add keeps an entry.
func (r *Recorder) add(e Entry) {
	e.At = r.w.now
	limit := r.Max
	if limit == 0 {
		limit = maxTrace
	}
	if len(r.entries) < limit {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.first] = e
	r.first = (r.first + 1) % len(r.entries)
	r.dropped++
}

// Entries returns what was kept, oldest first.
func (r *Recorder) Entries() []Entry {
	return append(append([]Entry(nil), r.entries[r.first:]...), r.entries[:r.first]...)
}

// OnEvent keeps an event.
func (r *Recorder) OnEvent(e event.Event) {
	r.add(Entry{Node: e.Node, What: "event", Text: e.String(), Event: e})
}

// OnSend keeps a frame that leaves.
func (r *Recorder) OnSend(from string, s node.SessionID, f *wire.Frame) {
	if r.Frames {
		r.add(Entry{Node: from, What: "send", Text: describeFrame(s, f)})
	}
}

// OnDeliver keeps a frame that is taken.
func (r *Recorder) OnDeliver(to string, s node.SessionID, f *wire.Frame) {
	if r.Frames {
		r.add(Entry{Node: to, What: "take", Text: describeFrame(s, f)})
	}
}

// OnDisk keeps an operation that took effect.
func (r *Recorder) OnDisk(name string, res *storage.Result) {
	if !r.Disk {
		return
	}
	text := opName(&res.Op)
	if res.Err != nil {
		text += ": " + res.Err.Error()
	}
	r.add(Entry{Node: name, What: "disk", Text: text})
}

// OnFault keeps a fault.
func (r *Recorder) OnFault(f *Fault, ended bool) {
	text := FormatFault(f)
	if ended {
		text = "ended: " + text
	}
	names := append([]string(nil), f.Nodes...)
	for _, s := range f.Sides {
		names = append(names, s...)
	}
	r.add(Entry{What: "fault", Text: text, Nodes: names})
}

// OnLife keeps a step of a life.
func (r *Recorder) OnLife(l LifeChange) {
	text := fmt.Sprintf("life %d %s", l.Ordinal, l.Phase)
	if l.Reason != "" {
		text += ": " + l.Reason
	}
	r.add(Entry{Node: l.Node, What: "life", Text: text})
}

// describeFrame prints a frame on one line.
func describeFrame(s node.SessionID, f *wire.Frame) string {
	side := "s"
	if s&node.Dialled != 0 {
		side, s = "d", s&^node.Dialled
	}
	text := fmt.Sprintf("%s%d %s kind %d", side, uint64(s), f.Link, netsim.KindOf(f))
	if f.Replica != nil {
		text += fmt.Sprintf(" term %d off %d confirm %d", f.Replica.Term, f.Replica.Offset, f.Replica.Confirm)
	} else if f.Link == wire.Remoting {
		text += fmt.Sprintf(" opaque %d", f.Head.Opaque)
		if f.Head.Remark != "" {
			text += fmt.Sprintf(" %q", f.Head.Remark)
		}
	}
	return fmt.Sprintf("%s body %d", text, len(f.Body))
}

// columnWidth is the width of a node's column in a timeline.
const columnWidth = 5

// Timeline prints the trace: one line a transition, time first, then a column
// a node in which its mark stands, then the text. Marks: * event, > send,
// < take, # disk, ! fault, ^ life up, v life down. What happened to several nodes at
// once, or again and again, is one line.
func (r *Recorder) Timeline() string {
	var b strings.Builder
	r.head(&b)
	for _, l := range merged(r.Entries()) {
		r.columns(&b, &l.Entry)
		b.WriteString(l.text() + "\n")
	}
	return b.String()
}

// FullTimeline is Timeline with a line for each entry.
func (r *Recorder) FullTimeline() string {
	var b strings.Builder
	r.head(&b)
	for _, e := range r.Entries() {
		r.columns(&b, &e)
		name := e.Node
		if name == "" {
			name = "world"
		}
		fmt.Fprintf(&b, "%s %s\n", name, e.Text)
	}
	return b.String()
}

// head prints the names of the columns.
func (r *Recorder) head(b *strings.Builder) {
	fmt.Fprintf(b, "%14s ", "T+")
	for _, n := range r.w.nodes {
		name := n.spec.Name
		if len(name) > columnWidth {
			name = name[:2] + "~" + name[len(name)-columnWidth+3:]
		}
		fmt.Fprintf(b, "%-*s ", columnWidth, name)
	}
	b.WriteByte('\n')
	if r.dropped > 0 {
		fmt.Fprintf(b, "(%d earlier lines were dropped)\n", r.dropped)
	}
}

// columns prints when an entry was and its mark in the column of each of its nodes.
func (r *Recorder) columns(b *strings.Builder, e *Entry) {
	fmt.Fprintf(b, "%14s ", seconds(e.At))
	for _, n := range r.w.nodes {
		mark := ""
		if n.spec.Name == e.Node || slices.Contains(e.Nodes, n.spec.Name) {
			mark = e.mark()
		}
		fmt.Fprintf(b, "%-*s ", columnWidth, mark)
	}
}

// mark is the sign of an entry in its node's column.
func (e *Entry) mark() string {
	switch e.What {
	case "event":
		return "*"
	case "send":
		return ">"
	case "take":
		return "<"
	case "disk":
		return "#"
	case "fault":
		return "!"
	}
	if strings.Contains(e.Text, " up") {
		return "^"
	}
	return "v"
}
