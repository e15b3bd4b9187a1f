package live

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"lockstep/scenarios"
	"lockstep/sim"
)

// Settings say how a drill is run.
type Settings struct {
	Pace     int64              // as in Options
	Dir      string             // where the run's files go, in a directory of its own that is removed; "" is the system's place
	Settings []scenarios.Option // drawn options to override
	Log      *slog.Logger       // of the hosts; nil discards
}

// NotLive says why a drill is only the simulator's; "" when it runs here too.
func NotLive(d *scenarios.Drill) string {
	switch {
	case d.Pure != nil:
		return "it checks a function or a store and has no world"
	case d.World != nil:
		return "it sets latencies or clocks of the simulated world"
	}
	return ""
}

// Run runs a drill once and judges it. A drill that cannot run live is reported so.
func Run(d *scenarios.Drill, seed uint64, s Settings) (*scenarios.Report, error) {
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
			w, err = New(Options{Dir: dir, Plan: p, Sim: o, Pace: s.Pace, Log: s.Log})
			return w, err
		},
	})
	if err != nil {
		return nil, err
	}
	rep.Pace, rep.Mapped = w.o.Pace, w.Mapped()
	return rep, nil
}
