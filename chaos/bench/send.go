package bench

import (
	"context"
	"fmt"
	"time"
)

// sends measures every wanted load, each right after the baseline's.
func (r *running) sends(ctx context.Context) error {
	for i := range aims {
		a := &aims[i]
		name := sendName(r.flush, a.load.Name)
		if r.flush == asyncFlush && !a.async || !r.Wanted(name) && !(r.flush == syncFlush && a.p99 > 0 && r.Wanted(name+".p99")) {
			continue
		}
		if err := r.send(ctx, a, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) send(ctx context.Context, a *aim, name string) error {
	floor, err := Drive(ctx, r.base.addr, a.load, r.Warm, r.Lasts)
	if err != nil {
		return fmt.Errorf("the baseline: %w", err)
	}
	before, err := r.used()
	if err != nil {
		return err
	}
	machine, err := ReadMachine()
	if err != nil {
		return err
	}
	began := time.Now()
	got, err := Drive(ctx, r.master.Addr, a.load, r.Warm, r.Lasts)
	if err != nil {
		return err
	}
	lasted := time.Since(began)
	after, err := r.used()
	if err != nil {
		return err
	}
	now, err := ReadMachine()
	if err != nil {
		return err
	}
	row := Row{Name: name, What: describe(a, r.flush), Unit: "msg/s", Measured: got.PerSecond, Aim: a.perSecond, Baseline: floor.PerSecond,
		P50: millis(got.P50), P99: millis(got.P99), BaselineP99: millis(floor.P99), Busy: now.Busy(machine)}
	if sent := got.PerSecond * lasted.Seconds(); sent > 0 {
		row.CPU = float64((after - before).Microseconds()) / sent
	}
	if got.Refused > 0 {
		row.Note = fmt.Sprintf("%d answers were no SEND_OK, the first: %s", got.Refused, got.Remark)
		row.Measured = 0
	}
	if r.Wanted(name) {
		r.Report(row)
	}
	if r.flush == syncFlush && a.p99 > 0 && r.Wanted(name+".p99") {
		r.Report(Row{Name: name + ".p99", What: "99th percentile of the same", Unit: "ms", Measured: row.P99, Aim: a.p99, Less: true,
			Baseline: row.BaselineP99, Busy: row.Busy, Note: row.Note})
	}
	return nil
}

func describe(a *aim, flush string) string {
	if a.load.Waiting > 16 {
		return fmt.Sprintf("%d sends under way over %d connections, %s", a.load.Conns*a.load.Waiting, a.load.Conns, flush)
	}
	return fmt.Sprintf("%d waiting producers over %d connections, %s", a.load.Conns*a.load.Waiting, a.load.Conns, flush)
}

// used is the processor time of all daemons so far.
func (r *running) used() (time.Duration, error) {
	var sum time.Duration
	for _, p := range r.cluster.Processes("") {
		t, err := processorTime(p.PID)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}
