package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/scenarios"
)

func parseTime(s string) (int64, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UnixNano(), err
}

// load is the stock client as producer or consumer.
type load struct {
	cmd  *exec.Cmd
	file string
}

func (c *Cluster) client(verb string, args ...string) (*load, error) {
	l := &load{file: filepath.Join(c.o.Data, verb+".jsonl")}
	args = append([]string{verb, "--namesrv", c.Namesrv(), "--topic", topic, "--out", l.file}, args...)
	l.cmd = exec.Command(c.o.Client, args...)
	l.cmd.Stderr = c.o.Log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return l, l.cmd.Start()
}

// end asks the client to finish and waits.
func (l *load) end() error {
	l.cmd.Process.Signal(syscall.SIGTERM) // it may be done already
	if err := l.cmd.Wait(); err != nil {
		return fmt.Errorf("the stock client: %w", err)
	}
	return nil
}

// strike is one fault that a run made.
type strike struct {
	at    int64 // wall clock, nanoseconds
	what  string
	epoch ha.MasterEpoch
}

// MasterCrash is drill A3 on real processes: kill -9 of the master under load,
// also while a replica is catching up, and a master that stands still for longer
// than the heartbeat time-out.
func MasterCrash(ctx context.Context, o Options) (*scenarios.Report, error) {
	began := time.Now()
	c, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	strikes, err := c.underLoad(ctx)
	if stop := c.Stop(); err == nil {
		err = stop
	}
	if err != nil {
		return nil, err
	}
	rep, err := c.judge(strikes, began)
	if err != nil {
		return nil, err
	}
	rep.WallSeconds = time.Since(began).Seconds()
	rep.SimulatedSeconds = rep.WallSeconds
	return rep, nil
}

// underLoad produces and consumes while masters die.
func (c *Cluster) underLoad(ctx context.Context) ([]strike, error) {
	lasts := time.Duration(c.o.Rounds+1)*roundLimit + time.Minute
	producer, err := c.client("produce", "--rate", fmt.Sprint(c.o.Rate), "--workers", "32", "--for", lasts.String())
	if err != nil {
		return nil, fmt.Errorf("start the stock producer: %w", err)
	}
	defer producer.cmd.Process.Kill() // no effect once it has ended
	if err := c.acknowledging(ctx, producer.file, 60*time.Second); err != nil {
		return nil, err
	}
	consumer, err := c.client("consume", "--for", (lasts + 2*time.Minute).String())
	if err != nil {
		return nil, fmt.Errorf("start the stock consumer: %w", err)
	}
	defer consumer.cmd.Process.Kill() // no effect once it has ended
	strikes, err := c.strikeMasters(ctx, producer.file)
	if err != nil {
		return nil, err
	}
	if err := producer.end(); err != nil {
		return nil, err
	}
	if err := c.caughtUp(ctx, producer.file, consumer.file); err != nil {
		return nil, err
	}
	return strikes, consumer.end()
}

// roundLimit is how long one fault may take until stock clients succeed again:
// they refresh their routes every 30 s.
const roundLimit = 60 * time.Second

func (c *Cluster) strikeMasters(ctx context.Context, journal string) ([]strike, error) {
	rnd := prng.New(c.o.Seed)
	var strikes []strike
	var down *daemon
	for round := range c.o.Rounds {
		m, err := c.Master(ctx, roundLimit)
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, time.Duration(rnd.Between(int64(3*time.Second), int64(8*time.Second)))); err != nil {
			return nil, err
		}
		if down != nil { // the last victim returns and is still catching up when the next master dies
			if err := c.start(down); err != nil {
				return nil, err
			}
			if err := pause(ctx, time.Duration(rnd.Between(int64(100*time.Millisecond), int64(1500*time.Millisecond)))); err != nil {
				return nil, err
			}
		}
		strikes = append(strikes, c.note("kill -9 "+m.name))
		if err := c.kill(m); err != nil {
			return nil, err
		}
		if err := c.acknowledging(ctx, journal, roundLimit); err != nil {
			return nil, fmt.Errorf("round %d, %s killed: %w", round+1, m.name, err)
		}
		down = m
	}
	if err := c.start(down); err != nil {
		return nil, err
	}
	if err := c.ready(ctx, roundLimit); err != nil {
		return nil, err
	}
	return c.standStill(ctx, journal, strikes)
}

// standStill stops the master for longer than time-out and lease; it must not
// succeed with anything when it wakes up.
func (c *Cluster) standStill(ctx context.Context, journal string, strikes []strike) ([]strike, error) {
	m, err := c.Master(ctx, roundLimit)
	if err != nil {
		return nil, err
	}
	strikes = append(strikes, c.note("SIGSTOP "+m.name))
	if err := c.signal(m, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	err = c.acknowledging(ctx, journal, roundLimit)
	strikes = append(strikes, c.note("SIGCONT "+m.name))
	if cont := c.signal(m, syscall.SIGCONT); err == nil {
		err = cont
	}
	if err != nil {
		return nil, err
	}
	return strikes, c.ready(ctx, roundLimit)
}

func (c *Cluster) note(what string) strike {
	s := strike{at: time.Now().UnixNano(), what: what}
	fmt.Fprintf(c.o.Log, "%s %s\n", time.Now().Format("15:04:05.000"), what)
	return s
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acknowledging waits until a send that began from now on is acknowledged.
func (c *Cluster) acknowledging(ctx context.Context, journal string, limit time.Duration) error {
	from := time.Now().UnixNano()
	return until(ctx, limit, "a send acknowledged", func() bool {
		ops, err := readJournal(journal)
		if err != nil {
			return false // it may be in the middle of a line
		}
		for i := len(ops) - 1; i >= 0; i-- {
			if ops[i].Status == checker.Done && ops[i].Invoke > from {
				return true
			}
		}
		return false
	})
}

// caughtUp waits until the consumer has every acknowledged key.
func (c *Cluster) caughtUp(ctx context.Context, sent, read string) error {
	return until(ctx, 2*roundLimit, "the consumer to read everything acknowledged", func() bool {
		sends, err := readJournal(sent)
		if err != nil {
			return false
		}
		reads, err := readJournal(read)
		if err != nil {
			return false
		}
		have := map[string]bool{}
		for i := range reads {
			have[reads[i].Key] = true
		}
		for i := range sends {
			if sends[i].Status == checker.Done && !have[sends[i].Key] {
				return false
			}
		}
		return true
	})
}

// judge reconciles by key and measures the recoveries.
func (c *Cluster) judge(strikes []strike, began time.Time) (*scenarios.Report, error) {
	events, err := c.readEvents()
	if err != nil {
		return nil, err
	}
	h := &checker.History{MinClients: 4, MinOverlap: 10}
	for _, f := range []string{"produce.jsonl", "consume.jsonl"} {
		ops, err := readJournal(filepath.Join(c.o.Data, f))
		if err != nil {
			return nil, err
		}
		h.Ops = append(h.Ops, ops...)
	}
	final, diverged, err := c.finalLogs(events)
	if err != nil {
		return nil, err
	}
	h.Final = final
	found, counts := checker.CheckQueues(h)
	found = append(found, diverged...)
	inv := checker.NewInvariants(false)
	seen := map[ha.SetEpoch]bool{}
	for _, e := range events {
		if e.Kind == event.Elected || e.Kind == event.SetAltered {
			if seen[e.SetEpoch] {
				continue
			}
			seen[e.SetEpoch] = true
		}
		inv.See(e)
	}
	found = append(found, inv.Findings()...)
	return c.report(h, counts, found, events, strikes, began), nil
}

// finalLogs reads the log of the last master and compares the others with it.
func (c *Cluster) finalLogs(events []event.Event) (map[string][]checker.Entry, []checker.Finding, error) {
	master := ""
	for _, e := range events {
		if e.Kind == event.Serving {
			master = e.Node
		}
	}
	if master == "" {
		return nil, nil, errors.New("no broker ever served")
	}
	var final map[string][]checker.Entry
	ends := map[string]ha.LogOffset{}
	for _, d := range c.of("broker") {
		queues, end, err := readLog(filepath.Join(d.dir, "store"))
		if err != nil {
			return nil, nil, err
		}
		ends[d.name] = end
		if d.name == master {
			final = queues
		}
	}
	var found []checker.Finding
	for _, d := range c.of("broker") {
		if ends[d.name] < ends[master] {
			continue // a replica that was stopped first may lack the master's last records
		}
		if err := sameBytes(filepath.Join(d.dir, "store"), filepath.Join(c.o.Data, master, "store"), ends[master]); err != nil {
			found = append(found, checker.Finding{Judge: "convergence", Name: "diverged", Text: err.Error()})
		}
	}
	return final, found, nil
}

// sameBytes compares two logs up to an end.
func sameBytes(a, b string, end ha.LogOffset) error {
	names, err := filepath.Glob(filepath.Join(b, "commitlog", "*"))
	if err != nil {
		return err
	}
	sort.Strings(names)
	left := int64(end)
	for _, n := range names {
		x, err := os.ReadFile(n)
		if err != nil {
			return err
		}
		y, err := os.ReadFile(filepath.Join(a, "commitlog", filepath.Base(n)))
		if err != nil {
			return err
		}
		k := min(left, int64(len(x)), int64(len(y)))
		for i := range k {
			if x[i] != y[i] {
				return fmt.Errorf("%s and %s differ at byte %d of %s", a, b, i, filepath.Base(n))
			}
		}
		left -= k
	}
	return nil
}
