package bench

import (
	"context"
	"fmt"
	"net"
	"time"

	"lockstep/chaos"
	"lockstep/node/wire"
)

const (
	sessionsName = "memory.sessions"
	logName      = "memory.log"
	// idleAim is what a daemon without work may hold, MiB.
	idleAim = 40
	// growthAim is what memory may grow by in the two growth rows, MiB: allocator and
	// collector move by that much by themselves.
	growthAim = 8
)

func idleName(kind string) string { return "idle." + kind }

// memory measures daemons at rest, and what connections and messages leave behind.
func (r *running) memory(ctx context.Context) error {
	if err := r.idle(ctx); err != nil {
		return err
	}
	if r.Wanted(sessionsName) {
		if err := r.sessions(ctx); err != nil {
			return err
		}
	}
	if r.Wanted(logName) {
		return r.growth(ctx)
	}
	return nil
}

// idle reports the largest daemon of each kind.
func (r *running) idle(ctx context.Context) error {
	if err := wait(ctx, settle); err != nil {
		return err
	}
	for _, kind := range []string{"namesrv", "controller", "broker"} {
		if !r.Wanted(idleName(kind)) {
			continue
		}
		worst := 0.0
		for _, p := range r.cluster.Processes(kind) {
			mib, err := resident(p.PID)
			if err != nil {
				return err
			}
			worst = max(worst, mib)
		}
		r.Report(Row{Name: idleName(kind), What: "resident memory of an idle " + kind, Unit: "MiB", Measured: worst, Aim: idleAim, Less: true})
	}
	return nil
}

// sessions opens and closes connections, first as many to warm up, and reports
// what the master holds more afterwards.
func (r *running) sessions(ctx context.Context) error {
	var held [2]float64
	for i := range held {
		if err := openAndClose(ctx, r.master.Addr, r.Sessions); err != nil {
			return err
		}
		rest, err := r.rest(ctx, r.master)
		if err != nil {
			return err
		}
		held[i] = rest[0]
	}
	r.Report(Row{Name: sessionsName, What: fmt.Sprintf("growth of the master after %d more sessions opened and closed", r.Sessions),
		Unit: "MiB", Measured: max(0, held[1]-held[0]), Aim: growthAim, Less: true, Note: fmt.Sprintf("%.0f MiB in all", held[1])})
	return nil
}

// sessionsAtOnce is how many connections are open at a time.
const sessionsAtOnce = 50

// openAndClose opens n sessions that each ask one thing.
func openAndClose(ctx context.Context, addr string, n int) error {
	ask := wire.NewRequest(wire.ReqGetMaxOffset, firstOpaque, &wire.QueueOffsetRequest{Topic: topic}, nil)
	raw, err := wire.AppendFrame(nil, &ask, wire.JSON)
	if err != nil {
		return err
	}
	answer := make([]byte, 1024)
	for done := 0; done < n; done += sessionsAtOnce {
		var open []net.Conn
		for range min(sessionsAtOnce, n-done) {
			c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return fmt.Errorf("session %d: %w", done+len(open), err)
			}
			open = append(open, c)
			if _, err := c.Write(raw); err != nil {
				return err
			}
		}
		for _, c := range open {
			c.SetReadDeadline(time.Now().Add(10 * time.Second)) // fails on a closed connection only
			if _, err := c.Read(answer); err != nil {
				return fmt.Errorf("session of %d: %w", n, err)
			}
			c.Close() // that is the point
		}
	}
	return nil
}

// growth sends messages, first as many to warm up, and reports what the largest
// broker holds more afterwards.
func (r *running) growth(ctx context.Context) error {
	load := Load{"fill", 4, 64}
	var held [2][]float64
	for i := range held {
		if err := r.fill(ctx, load); err != nil {
			return err
		}
		var err error
		if held[i], err = r.rest(ctx, r.cluster.Processes("broker")...); err != nil {
			return err
		}
	}
	worst, total := 0.0, 0.0
	for k, mib := range held[1] {
		worst, total = max(worst, mib-held[0][k]), max(total, mib)
	}
	r.Report(Row{Name: logName, What: fmt.Sprintf("growth of a broker at rest after %d more messages of 1 KiB", r.Messages), Unit: "MiB",
		Measured: worst, Aim: growthAim, Less: true, Note: fmt.Sprintf("%.0f MiB in all", total)})
	return nil
}

// fill sends at least Messages.
func (r *running) fill(ctx context.Context, l Load) error {
	const piece = time.Second
	for sent := 0.0; sent < float64(r.Messages); {
		got, err := Drive(ctx, r.master.Addr, l, 0, piece)
		if err != nil {
			return err
		}
		if got.PerSecond == 0 {
			return fmt.Errorf("no message was acknowledged: %s", got.Remark)
		}
		sent += got.PerSecond * piece.Seconds()
	}
	return nil
}

// rest is the memory that processes come to once they have nothing to do: the
// least of several looks, because collectors give memory back late.
func (r *running) rest(ctx context.Context, ps ...chaos.Process) ([]float64, error) {
	least := make([]float64, len(ps))
	for look := range 4 {
		if err := wait(ctx, settle/2); err != nil {
			return nil, err
		}
		for i, p := range ps {
			mib, err := resident(p.PID)
			if err != nil {
				return nil, err
			}
			if look == 0 || mib < least[i] {
				least[i] = mib
			}
		}
	}
	return least, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
