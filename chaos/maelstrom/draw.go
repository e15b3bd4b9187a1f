package maelstrom

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/diagram"
	"lockstep/chaos/maelstrom/history"
	"lockstep/chaos/maelstrom/service"
)

// writeDiagram writes the space-time diagram of the run.
func (r *runner) writeDiagram(rep *Report) error {
	f, err := os.Create(r.o.HTML)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if err := errors.Join(r.page(rep).Write(f), f.Close()); err != nil {
		return fmt.Errorf("--html %s: %w", r.o.HTML, err)
	}
	return nil
}

func threadLane(i int) string { return fmt.Sprintf("thread %d", i) }

func (r *runner) page(rep *Report) *diagram.Page {
	p := &diagram.Page{Title: fmt.Sprintf("%s, seed %d: %s", rep.Workload, rep.Seed, rep.Verdict), Lines: []string{rep.Repeat}}
	if rep.Error != "" {
		p.Lines = append(p.Lines, rep.Error)
	}
	for _, res := range rep.Results {
		for _, a := range res.Anomalies {
			p.Lines = append(p.Lines, fmt.Sprintf("%s ×%d: %s", a.Name, a.Count, a.Examples[0].Text))
		}
		if at, found := res.First(); found && res.Verdict == check.Invalid && (!p.Focused || at < p.Focus) {
			p.Focus, p.Focused = at, true
		}
	}
	lane := r.lanes(p)
	for _, m := range r.c.r.journal.all() {
		p.Messages = append(p.Messages, diagram.Message{From: lane(m.Src), To: lane(m.Dest), Label: m.Type, Sent: m.Sent, At: m.At,
			Lost: m.Fate == LostInCut || m.Fate == LostDown, Flying: m.Fate == InFlight})
	}
	for _, op := range r.rec.Ops() {
		end := op.Completed
		if op.Type == history.Running {
			end = r.rec.Now()
		}
		p.Ops = append(p.Ops, diagram.Op{Lane: threadLane(op.Thread), Label: opLabel(op), From: op.Invoked, To: end, Outcome: op.Type.String()})
	}
	p.Periods = r.periods()
	return p
}

// lanes lists the columns and returns the column of a name.
func (r *runner) lanes(p *diagram.Page) func(name string) string {
	for _, n := range r.c.nodes {
		p.Lanes = append(p.Lanes, n.name)
	}
	used := map[string]bool{}
	for _, m := range r.c.r.journal.all() {
		used[m.Dest] = true
	}
	for _, s := range service.Names {
		if used[s] {
			p.Lanes = append(p.Lanes, s)
		}
	}
	for i := range r.threads {
		p.Lanes = append(p.Lanes, threadLane(i))
	}
	return func(name string) string {
		if t, ok := r.c.r.threadOf[name]; ok {
			return threadLane(t)
		}
		return name
	}
}

func opLabel(op *history.Op) string {
	text := fmt.Sprintf("op %d process %d %s %s", op.Index, op.Process, op.F, op.Type)
	switch op.F {
	case history.Send:
		text += fmt.Sprintf(" key %s message %d offset %d", op.Key, op.Msg, op.Offset)
	case history.Poll:
		text += fmt.Sprintf(" from %v: %v", op.Positions, op.Msgs)
	case history.Assign:
		text += fmt.Sprintf(" %v at %v", op.Keys, op.Positions)
	case history.Broadcast:
		text += fmt.Sprintf(" %d", op.Msg)
	case history.Read, history.Write, history.CAS:
		if op.Key != "" {
			text += fmt.Sprintf(" key %s from %d value %d", op.Key, op.From, op.Msg)
		}
		if op.Value != nil {
			text += fmt.Sprintf(" answered %d", *op.Value)
		}
	}
	if op.Err != "" {
		text += " " + op.Err
	}
	const most = 400
	return text[:min(len(text), most)]
}

// periods pairs the starts and stops of faults.
func (r *runner) periods() []diagram.Period {
	var out []diagram.Period
	end := max(r.mainEnd, r.base)
	if end == r.base {
		end = r.rec.Now()
	}
	for i, a := range r.acts {
		if !a.Start {
			continue
		}
		stop := time.Duration(end)
		if j := slices.IndexFunc(r.acts[i:], func(b doneAct) bool { return b.Kind == a.Kind && !b.Start }); j > 0 {
			stop = r.acts[i+j].done
		}
		period := diagram.Period{Label: strings.TrimSpace(a.Kind + " " + a.Shape), Text: strings.TrimSpace(a.String()), From: a.done, To: stop}
		for _, t := range a.Targets {
			period.Lanes = append(period.Lanes, nodeName(t))
		}
		out = append(out, period)
	}
	return out
}
