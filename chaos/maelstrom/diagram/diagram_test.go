package diagram

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// page has a message of each fate, an operation of each outcome and two faults.
func page() *Page {
	return &Page{
		Title: "kafka, seed 1: <invalid>", Lines: []string{"lost-write ×1 & more"}, Lanes: []string{"n0", "n1", "thread 0"},
		Messages: []Message{
			{From: "thread 0", To: "n0", Label: "send", Sent: 0, At: 0},
			{From: "n0", To: "n1", Label: "append", Sent: 1 * ms, At: 5 * ms},
			{From: "n0", To: "n1", Label: "append", Sent: 2 * ms, At: 7 * ms, Lost: true},
			{From: "n1", To: "n0", Label: "ack", Sent: 6 * ms, Flying: true},
			{From: "n1", To: "nobody", Label: "stray", Sent: 6 * ms, At: 7 * ms},
		},
		Ops: []Op{
			{Lane: "thread 0", Label: "op 0 send ok", From: 0, To: 8 * ms, Outcome: "ok"},
			{Lane: "thread 0", Label: "op 1 poll info", From: 8 * ms, To: 9 * ms, Outcome: "info"},
		},
		Periods: []Period{{Label: "partition one", From: 2 * ms, To: 8 * ms}, {Label: "kill n1", Lanes: []string{"n1"}, From: 1 * ms, To: 3 * ms}},
		Focus:   7 * ms, Focused: true,
	}
}

func written(t *testing.T, p *Page) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	text := written(t, page())
	for what, want := range map[string]int{
		`<line class="lane"`:                        3, // one a column
		`<line class="m`:                            4, // the stray one has no column
		`<line class="m lost"`:                      1,
		`<path class="lost"`:                        1, // its cross
		`<line class="m fly"`:                       1,
		`<line class="m client"`:                    1,
		`<rect class="bar ok"`:                      1,
		`<rect class="cut"`:                         2,
		`<rect class="bar info"`:                    0, // begins after the window
		`first anomaly`:                             1,
		`&lt;invalid&gt;`:                           2,
		`n0 → n1 append, sent 0.0010s, took 4.0 ms`: 1,
	} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%q is there %d times, want %d", what, got, want)
		}
	}
	// The drawing is well-formed XML.
	svg := text[strings.Index(text, "<svg"):strings.Index(text, "</body>")]
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
		t.Error("the page holds a number or text that was not formatted")
	}
}

// TestWindow: the page is bounded, and shows the time around the first anomaly.
func TestWindow(t *testing.T) {
	p := page()
	p.Messages = nil
	for i := range 10000 {
		p.Messages = append(p.Messages, Message{From: "n0", To: "n1", Label: fmt.Sprint("m", i), Sent: time.Duration(i) * ms, At: time.Duration(i+3) * ms})
	}
	for range 10 * MaxOps {
		p.Ops = append(p.Ops, Op{Lane: "thread 0", From: 2 * time.Second, To: 2001 * ms, Outcome: "ok"})
	}
	for range 10 * MaxPeriods {
		p.Periods = append(p.Periods, Period{Label: "x", From: 0, To: time.Hour})
	}
	p.Focus = 2 * time.Second
	text := written(t, p)
	if n := strings.Count(text, `<line class="m"`); n != MaxMessages {
		t.Errorf("%d messages", n)
	}
	if n := strings.Count(text, `<rect class="bar`); n != MaxOps {
		t.Errorf("%d operations", n)
	}
	if !strings.Contains(text, "m2000,") || !strings.Contains(text, "m1700,") || strings.Contains(text, "m100,") {
		t.Error("the window is not around the first anomaly")
	}
	if len(text) > 1<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
	p.Focused = false
	if text = written(t, p); !strings.Contains(text, "m9999,") || strings.Contains(text, "m2000,") {
		t.Error("without an anomaly the end is shown")
	}
}

// TestEmptyPage: a run that saw nothing has a page too.
func TestEmptyPage(t *testing.T) {
	if text := written(t, &Page{Title: "nothing", Lanes: []string{"n0"}}); !strings.Contains(text, "0 of 0 messages") {
		t.Error("no page")
	}
}
