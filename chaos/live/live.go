package live

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"lockstep/scenarios"
	"lockstep/sim"
)

// Settings say how a drill is run.
type Settings struct {
	Pace     int64              // as in Options; drills that are Fine run at 1
	Dir      string             // where the run's files go, in a directory of its own that is removed; "" is the system's place
	Settings []scenarios.Option // drawn options to override
	Log      *slog.Logger       // of the hosts; nil discards
}

// NotLive says why a drill is only the simulator's; "" when it runs here too.
func NotLive(d *scenarios.Drill) string {
	if d.Pure != nil {
		return "it checks a function or a store and has no world"
	}
	return ""
}

const (
	// tries is how often a drill is run at most: while what it fails is a matter of
	// times and the computer held it up.
	tries = 3
	// stall is how long the computer may stand still, real time, in a run whose times
	// are judged: at the default pace that is 400 ms for the nodes, and some
	// drills give a restarted node little more to come back before somebody else leads.
	stall = 50 * time.Millisecond
)

// Run runs a drill and judges it. A drill that cannot run live is reported so. One
// that fails by nothing but times, in a run in which the computer stood still for
// too long to judge them, is run again at half the pace.
func Run(d *scenarios.Drill, seed uint64, s Settings) (*scenarios.Report, error) {
	if s.Pace == 0 {
		s.Pace = DefaultPace
	}
	if d.Fine {
		s.Pace = 1
	}
	var stalls []string
	for try := 1; ; try, s.Pace = try+1, max(1, s.Pace/2) {
		rep, err := run(d, seed, s)
		if err != nil || try == tries || !disturbed(rep) {
			if rep != nil {
				rep.Disturbed = stalls
			}
			return rep, err
		}
		stalls = append(stalls, fmt.Sprintf("run %d: the computer stood still for %d ms: %s", try, rep.StallMillis, rep.Reason))
	}
}

// disturbed reports whether a run that did not pass says nothing about the nodes.
func disturbed(rep *scenarios.Report) bool {
	if rep.Verdict == scenarios.Pass || rep.Verdict == scenarios.NotLive || rep.StallMillis < stall.Milliseconds() {
		return false
	}
	for _, f := range rep.Findings {
		judge, name, _ := strings.Cut(f, "/")
		if strings.HasPrefix(name, "vacuous ") { // it was too quiet, whoever says so
			continue
		}
		switch judge {
		case "assertion", "liveness", "activity", "plan", "expectation":
		default:
			return false
		}
	}
	return true
}

// run runs a drill once.
func run(d *scenarios.Drill, seed uint64, s Settings) (*scenarios.Report, error) {
	if why := NotLive(d); why != "" {
		return &scenarios.Report{Seed: seed, Drill: d.ID, Host: "live", Verdict: scenarios.NotLive, Reason: why}, nil
	}
	dir, err := os.MkdirTemp(s.Dir, "lockstep-live-")
	if err != nil {
		return nil, fmt.Errorf("live: directory for the files of the nodes: %w", err)
	}
	defer os.RemoveAll(dir) // what is left is in the system's temporary place
	var w *World
	began := time.Now()
	_, rep, err := scenarios.Execute(d, seed, scenarios.RunOptions{
		Settings: s.Settings,
		Wall:     func() time.Duration { return time.Since(began) },
		Open: func(o sim.Options, p *sim.Plan) (scenarios.World, error) {
			w, err = New(Options{Dir: dir, Plan: p, Sim: o, Pace: s.Pace, Log: s.Log, Latencies: d.World != nil})
			return w, err
		},
	})
	if err != nil {
		return nil, err
	}
	rep.Pace, rep.Mapped, rep.StallMillis = w.o.Pace, w.Mapped(), w.Stalled().Milliseconds()
	return rep, nil
}
