package main

import (
	"fmt"
	"io"

	"lockstep/chaos/bench"
)

// benchTable prints rows as they are measured.
type benchTable struct {
	out    io.Writer
	failed []string
	begun  bool
}

func newBenchTable(out io.Writer) *benchTable { return &benchTable{out: out} }

const benchLine = "%-24s %10s %-6s %9s %9s %9s %8s %8s %8s %5s  %s\n"

func (t *benchTable) add(r *bench.Row) {
	if !t.begun {
		t.begun = true
		fmt.Fprintf(t.out, benchLine, "aim", "measured", "unit", "aim", "floor", "x baseline", "p50 ms", "p99 ms", "CPU µs", "busy", "")
	}
	bound := ""
	if r.Less {
		bound = "≤ "
	}
	verdict := "below the aim"
	switch {
	case !r.Passed():
		verdict = "FAILED"
		t.failed = append(t.failed, r.Name)
	case r.Met():
		verdict = "ok"
	}
	if r.Note != "" {
		verdict += " · " + r.Note
	}
	fmt.Fprintf(t.out, benchLine, r.Name, number(r.Measured), r.Unit, bound+number(r.Aim), bound+number(r.Floor()), some(r.Ratio(), "%.2f"),
		some(r.P50, "%.1f"), some(r.P99, "%.1f"), some(r.CPU, "%.1f"), some(100*r.Busy, "%.0f%%"), verdict)
}

// number prints with as many decimals as the size deserves.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// some prints a value that a row may lack.
func some(v float64, format string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// finish fails when a row was below its floor.
func (t *benchTable) finish() error {
	if len(t.failed) == 0 {
		return nil
	}
	fmt.Fprintf(t.out, "\nbelow the floor: %v\n", t.failed)
	return errFailed
}
