package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"lockstep/chaos/bench"
	"lockstep/scenarios"
)

// simName is the row of benchSim.
const simName = "sim.standard"

// benchSim runs the standard world without faults and with all judges: simulated
// seconds by second of processor time in user mode, garbage collection included, of
// the best run; what else the machine does can only make a run slower.
// The world has 100 operations a second: 50 sends, and their 50 reads by the
// consumer that has the queue.
func benchSim(quick bool) (bench.Row, error) {
	d, err := scenarios.Find("S0")
	if err != nil {
		return bench.Row{}, err
	}
	runs := 30
	if quick {
		runs = 10
	}
	machine, err := bench.ReadMachine()
	if err != nil {
		return bench.Row{}, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one core, as the workers of a sweep have
	began := time.Now()
	simulated, cpu, best := 0.0, 0.0, 0.0
	for i := range runs {
		used := userTime()
		_, rep, err := scenarios.Execute(d, uint64(i+1), scenarios.RunOptions{})
		if err != nil {
			return bench.Row{}, err
		}
		if rep.Verdict != scenarios.Pass {
			return bench.Row{}, fmt.Errorf("S0 seed %d: %s: %s", i+1, rep.Verdict, rep.Reason)
		}
		spent := (userTime() - used).Seconds()
		simulated, cpu, best = simulated+rep.SimulatedSeconds, cpu+spent, max(best, rep.SimulatedSeconds/spent)
	}
	took := time.Since(began).Seconds()
	now, err := bench.ReadMachine()
	return bench.Row{Name: simName, What: "simulated seconds of the standard world by processor second", Unit: "sim-s", Measured: best,
		Aim: 1000, Busy: now.Busy(machine), Note: fmt.Sprintf("%.0f on average, %.0f by second of wall time", simulated/cpu, simulated/took)}, err
}

// userTime is the time this process has computed in user mode.
func userTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it fails on a bad argument only
	}
	return time.Duration(r.Utime.Nano())
}
