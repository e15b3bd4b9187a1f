// Package diagram draws a run as a space-time diagram: one HTML page with one SVG,
// a vertical line a node, messages as arrows from the moment they were sent to the
// moment they were delivered, lost ones ending in a cross, faults shaded, and the
// operations of clients as bars beside them. Time runs downwards.
package diagram

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// Limits of what one page shows.
const (
	MaxMessages = 500
	MaxOps      = 1000
	MaxPeriods  = 100
)

// Message is one arrow.
type Message struct {
	From, To string // lanes
	Label    string
	Sent, At time.Duration
	Lost     bool
	Flying   bool // neither delivered nor lost by the end
}

// Op is one bar in the lane of its thread.
type Op struct {
	Lane     string
	Label    string
	From, To time.Duration
	Outcome  string // ok, fail, info, running
}

// Period is one fault at work; no lanes means all.
type Period struct {
	Label    string // written beside it
	Text     string // shown when pointed at
	Lanes    []string
	From, To time.Duration
}

// Page is everything that is known; Write chooses the part to show.
type Page struct {
	Title    string
	Lines    []string // of text above the drawing
	Lanes    []string // nodes, services, then threads, from left to right
	Messages []Message
	Ops      []Op
	Periods  []Period
	Focus    time.Duration // the first anomaly
	Focused  bool          // there is one; else the end is shown
}

// window is the span of time that the page shows: of the messages that touch it
// there are at most MaxMessages.
func (p *Page) window() (from, to time.Duration, shown []Message) {
	all := slices.Clone(p.Messages)
	slices.SortStableFunc(all, func(a, b Message) int { return int(a.Sent - b.Sent) })
	start := max(0, len(all)-MaxMessages)
	if p.Focused {
		// Most of what led to an anomaly comes before the operation that shows it.
		at, _ := slices.BinarySearchFunc(all, p.Focus, func(m Message, t time.Duration) int { return int(m.Sent - t) })
		start = min(start, max(0, at-MaxMessages*3/4))
	}
	shown = all[start:min(len(all), start+MaxMessages)]
	if len(shown) == 0 {
		for _, o := range p.Ops {
			to = max(to, o.To)
		}
		return 0, max(to, time.Millisecond), nil
	}
	from = shown[0].Sent
	for _, m := range shown {
		to = max(to, m.Sent, m.At)
	}
	if p.Focused && p.Focus > to && p.Focus-to < time.Second {
		to = p.Focus
	}
	return from, max(to, from+time.Millisecond), shown
}

// Sizes in pixels.
const (
	laneWidth = 130
	left      = 90
	top       = 60
	perArrow  = 16
	minHeight = 500
	maxHeight = 9000
	cross     = 4
	barWidth  = 10
)

// drawing maps the page onto pixels.
type drawing struct {
	b      strings.Builder
	p      *Page
	from   time.Duration
	to     time.Duration
	height int
	lane   map[string]int
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	from, to, shown := p.window()
	d := &drawing{p: p, from: from, to: to, lane: map[string]int{}}
	d.height = min(maxHeight, max(minHeight, len(shown)*perArrow))
	for i, l := range p.Lanes {
		d.lane[l] = i
	}
	d.head(len(shown))
	d.periods()
	d.axis()
	d.ops()
	for _, m := range shown {
		d.message(m)
	}
	if p.Focused && p.Focus >= from && p.Focus <= to {
		d.add(`<line class="focus" x1="0" x2="%d" y1="%d" y2="%d"/><text class="focus" x="4" y="%d">first anomaly</text>`, d.width(), d.y(p.Focus), d.y(p.Focus), d.y(p.Focus)-4)
	}
	d.add("</svg></body></html>")
	_, err := io.WriteString(w, d.b.String())
	return err
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) width() int { return left + laneWidth*len(d.p.Lanes) }

func (d *drawing) x(lane string) int { return left + laneWidth/2 + laneWidth*d.lane[lane] }

func (d *drawing) y(t time.Duration) int {
	t = min(max(t, d.from), d.to)
	return top + int(float64(t-d.from)/float64(d.to-d.from)*float64(d.height))
}

const style = `body{font:13px sans-serif;margin:16px}svg{background:#fff}
text{font:11px sans-serif}.lane{stroke:#999}.tick{stroke:#eee}.time{fill:#777}
.m{stroke:#2458a6;stroke-width:1.1}.m:hover{stroke:#d60;stroke-width:3}.lost{stroke:#c22}.fly{stroke:#aaa;stroke-dasharray:3}
.client{stroke:#8a9ab0}.cut{fill:#c22;fill-opacity:.10}.ok{fill:#3a3}.fail{fill:#c80}.info,.running{fill:#c2c}
.bar{fill-opacity:.75}line.focus{stroke:#d00;stroke-width:2}text.focus{fill:#d00}`

func (d *drawing) head(shown int) {
	d.add(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>%s</title><style>%s</style></head><body>`, html.EscapeString(d.p.Title), style)
	d.add("<h1>%s</h1>", html.EscapeString(d.p.Title))
	for _, l := range d.p.Lines {
		d.add("<div>%s</div>", html.EscapeString(l))
	}
	d.add("<p>%d of %d messages, %.3fs to %.3fs. Arrows: blue between servers, grey of clients, red lost (cross), dashed still under way. Bars: operations, green ok, orange fail, purple unknown. Shaded: faults. Point at anything for its text.</p>",
		shown, len(d.p.Messages), d.from.Seconds(), d.to.Seconds())
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">`, d.width(), top+d.height+20)
	d.add(`<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#2458a6"/></marker></defs>`)
}

func (d *drawing) periods() {
	for i, p := range d.p.Periods {
		if i == MaxPeriods {
			return
		}
		if p.To < d.from || p.From > d.to {
			continue
		}
		y, h := d.y(p.From), max(1, d.y(p.To)-d.y(p.From))
		if len(p.Lanes) == 0 {
			d.add(`<rect class="cut" x="%d" y="%d" width="%d" height="%d"><title>%s</title></rect>`, left, y, d.width()-left, h, html.EscapeString(p.Text))
		}
		for _, l := range p.Lanes {
			d.add(`<rect class="cut" x="%d" y="%d" width="%d" height="%d"><title>%s</title></rect>`, d.x(l)-laneWidth/3, y, laneWidth*2/3, h, html.EscapeString(p.Text))
		}
		d.add(`<text x="%d" y="%d" fill="#a33">%s</text>`, left+2, y+11, html.EscapeString(p.Label))
	}
}

// ticks is about how many times are written beside the drawing.
const ticks = 40

func (d *drawing) axis() {
	step := time.Microsecond * 100
	for i := 0; (d.to-d.from)/step > ticks; i++ {
		step *= []time.Duration{2, 5, 2}[i%3] // 100 µs, 200 µs, 1 ms, 2 ms, 4 ms, …
	}
	for t := d.from.Truncate(step); t <= d.to; t += step {
		if t >= d.from {
			d.add(`<line class="tick" x1="%d" x2="%d" y1="%d" y2="%d"/><text class="time" x="4" y="%d">%.4fs</text>`, left, d.width(), d.y(t), d.y(t), d.y(t)+4, t.Seconds())
		}
	}
	for _, l := range d.p.Lanes {
		d.add(`<line class="lane" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d" text-anchor="middle">%s</text>`, d.x(l), d.x(l), top-10, top+d.height, d.x(l), top-18, html.EscapeString(l))
	}
}

func (d *drawing) ops() {
	n := 0
	for _, o := range d.p.Ops {
		if o.To < d.from || o.From > d.to || n == MaxOps {
			continue
		}
		n++
		d.add(`<rect class="bar %s" x="%d" y="%d" width="%d" height="%d"><title>%s</title></rect>`, html.EscapeString(o.Outcome), d.x(o.Lane)+2, d.y(o.From), barWidth, max(2, d.y(o.To)-d.y(o.From)), html.EscapeString(o.Label))
	}
}

func (d *drawing) message(m Message) {
	_, from := d.lane[m.From]
	_, to := d.lane[m.To]
	if !from || !to {
		return
	}
	class, marker := "m", ` marker-end="url(#a)"`
	if strings.HasPrefix(m.From, "thread") || strings.HasPrefix(m.To, "thread") {
		class += " client"
	}
	at, end := m.At, d.x(m.To)
	switch {
	case m.Lost:
		class, marker = class+" lost", ""
		end = d.x(m.From) + (end-d.x(m.From))*4/5 // the cross stands before the line
	case m.Flying:
		class, marker, at = class+" fly", "", d.to
	}
	title := fmt.Sprintf("%s → %s %s, sent %.4fs, took %.1f ms", m.From, m.To, m.Label, m.Sent.Seconds(), float64(at-m.Sent)/1e6)
	y := d.y(at)
	d.add(`<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"%s><title>%s</title></line>`, class, d.x(m.From), d.y(m.Sent), end, y, marker, html.EscapeString(title))
	if m.Lost {
		d.add(`<path class="lost" d="M%d %dl%d %dm0 %dl%d %d"/>`, end-cross, y-cross, 2*cross, 2*cross, -2*cross, -2*cross, 2*cross)
	}
}
