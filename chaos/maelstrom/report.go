package maelstrom

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/history"
)

// Crashed is the verdict of a run that ended before its time.
const Crashed check.Verdict = "crash"

// Report is what a run came to.
type Report struct {
	Workload   string         `json:"workload"`
	Seed       uint64         `json:"seed"`
	Verdict    check.Verdict  `json:"verdict"`
	Error      string         `json:"error,omitempty"` // of a crash
	Nodes      int            `json:"nodes"`
	Threads    int            `json:"threads"`
	Seconds    float64        `json:"seconds"`   // of the main phase
	PerSecond  float64        `json:"perSecond"` // operations that succeeded in it
	P50Millis  float64        `json:"p50Millis"` // of operations that succeeded
	P99Millis  float64        `json:"p99Millis"`
	Available  float64        `json:"availability"`
	Counts     []check.Counts `json:"operations"`
	Results    []check.Result `json:"results"`
	All        Traffic        `json:"netAll"`
	Servers    Traffic        `json:"netServers"`
	Dropped    int64          `json:"dropped"`    // by cuts and dead nodes
	Duplicated int64          `json:"duplicated"` // by the nemesis
	Exceptions []Tally        `json:"exceptions,omitempty"`
	Errors     []Tally        `json:"errors,omitempty"`
	Acts       []string       `json:"nemesis,omitempty"`
	Data       string         `json:"data,omitempty"` // folder of logs, when it was kept
	HTML       string         `json:"html,omitempty"`
	Repeat     string         `json:"repeat"`
}

// Tally counts one text.
type Tally struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// WriteJSON writes the report as one line.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// ExitCode is Maelstrom's: 0 valid, 1 invalid, 2 unknown, 255 crash.
func (r *Report) ExitCode() int {
	switch r.Verdict {
	case check.Valid:
		return 0
	case check.Invalid:
		return 1
	case check.Unknown:
		return 2
	}
	return 255
}

// Names are the names of all anomalies that make the run invalid.
func (r *Report) Names() []string {
	var out []string
	for _, res := range r.Results {
		out = append(out, res.Names()...)
	}
	return out
}

// report judges what has been seen. crash is why the run ended early, or nil.
func (r *runner) report(crash error) *Report {
	ops := r.rec.Ops()
	rep := &Report{Workload: r.o.Workload, Seed: r.o.Seed, Verdict: Crashed, Nodes: r.o.NodeCount, Threads: r.o.threads,
		Counts: check.Count(ops), Data: r.data, HTML: r.o.HTML, Repeat: r.o.Command()}
	rep.Seconds = max(0, r.mainEnd-r.base).Seconds()
	rep.tally(ops)
	rep.speed(ops)
	net := r.c.r
	rep.All, rep.Servers, rep.Dropped, rep.Duplicated = net.all, net.servers, net.lost, net.doubled
	for _, t := range []*Traffic{&rep.All, &rep.Servers} {
		t.PerOp = float64(t.Sent) / float64(max(1, len(ops)))
	}
	for _, a := range r.acts {
		rep.Acts = append(rep.Acts, a.String())
	}
	if crash != nil {
		rep.Error = crash.Error()
		return rep
	}
	fmt.Fprintf(r.o.Log, "%s: judging %d operations\n", r.o.Workload, len(ops))
	rep.Results = []check.Result{r.w.check(ops, len(r.acts) > 0), check.Stats(ops), check.Availability(ops, r.o.availabilityLimit)}
	rep.Verdict = check.Worst(rep.Results[0].Verdict, rep.Results[1].Verdict, rep.Results[2].Verdict)
	return rep
}

// maxTallies is how many different texts are kept of errors.
const maxTallies = 10

// tally counts why operations did not succeed. Replies that the protocol does not
// allow are exceptions, as in Maelstrom; error codes and time-outs are not.
func (r *Report) tally(ops []*history.Op) {
	exceptions, errs := map[string]int{}, map[string]int{}
	for _, op := range ops {
		switch {
		case op.Err == "" || op.F == history.Crash:
		case strings.HasPrefix(op.Err, "bad reply"):
			exceptions[op.Err]++
		default:
			errs[op.F+": "+op.Err]++
		}
	}
	r.Exceptions, r.Errors = tallies(exceptions), tallies(errs)
}

func tallies(m map[string]int) []Tally {
	var out []Tally
	for text, n := range m {
		out = append(out, Tally{text, n})
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Count != out[j].Count {
			return out[i].Count > out[j].Count
		}
		return out[i].Text < out[j].Text
	})
	if len(out) > maxTallies {
		rest := Tally{Text: fmt.Sprintf("%d other texts", len(out)-maxTallies)}
		for _, t := range out[maxTallies:] {
			rest.Count += t.Count
		}
		out = append(out[:maxTallies], rest)
	}
	return out
}

func (r *Report) speed(ops []*history.Op) {
	var took []time.Duration
	main, all := 0, 0
	for _, op := range ops {
		if op.Type != history.OK {
			continue
		}
		all++
		if !op.Final {
			main++
			took = append(took, op.Completed-op.Invoked)
		}
	}
	if len(ops) > 0 {
		r.Available = float64(all) / float64(len(ops))
	}
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	if r.Seconds > 0 {
		r.PerSecond = float64(main) / r.Seconds
	}
	r.P50Millis = float64(took[len(took)/2]) / 1e6
	r.P99Millis = float64(took[len(took)*99/100]) / 1e6
}

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%-14s %8s %8s %8s\n", "operation", "ok", "fail", "info")
	for _, c := range r.Counts {
		fmt.Fprintf(w, "%-14s %8d %8d %8d\n", c.F, c.OK, c.Fail, c.Info)
	}
	fmt.Fprintf(w, "\n%.1fs, %.1f ok/s, p50 %.1f ms, p99 %.1f ms, availability %.5f\n", r.Seconds, r.PerSecond, r.P50Millis, r.P99Millis, r.Available)
	fmt.Fprintf(w, "messages %d, between servers %d (%.2f an operation), dropped %d, duplicated %d\n", r.All.Sent, r.Servers.Sent, r.Servers.PerOp, r.Dropped, r.Duplicated)
	for _, a := range r.Acts {
		fmt.Fprintf(w, "nemesis %s\n", a)
	}
	writeTallies(w, "error", r.Errors)
	writeTallies(w, "exception", r.Exceptions)
	if len(r.Exceptions) == 0 {
		fmt.Fprintln(w, "no exceptions")
	}
	fmt.Fprintln(w)
	for _, res := range r.Results {
		fmt.Fprintf(w, "%-14s %-8s %s\n", res.Checker, res.Verdict, strings.Join(res.Notes, "; "))
		for _, a := range res.Anomalies {
			allowed := ""
			if a.Allowed {
				allowed = " (allowed)"
			}
			fmt.Fprintf(w, "  %s ×%d%s\n", a.Name, a.Count, allowed)
			for _, e := range a.Examples {
				fmt.Fprintf(w, "    %s\n", e.Text)
			}
		}
	}
	if r.Data != "" {
		fmt.Fprintf(w, "\nlogs and folders of the nodes: %s\n", r.Data)
	}
	if r.HTML != "" {
		fmt.Fprintf(w, "space-time diagram: %s\n", r.HTML)
	}
	fmt.Fprintf(w, "\n%s, seed %d: %s\n", r.Workload, r.Seed, r.Verdict)
}

func writeTallies(w io.Writer, what string, ts []Tally) {
	for _, t := range ts {
		fmt.Fprintf(w, "%s ×%d: %s\n", what, t.Count, t.Text)
	}
}
