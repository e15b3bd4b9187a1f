package maelstrom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/history"
)

// Run performs one test with options that Validate accepted. The error is a crash:
// a node that ended or wrote a bad line, or did not initialise; the report then
// holds what was seen until then.
func Run(ctx context.Context, o *Options) (*Report, error) {
	data, temporary, err := dataFolder(o)
	if err != nil {
		return nil, err
	}
	own := *o
	own.Log = &lockedWriter{w: o.Log}
	r := newRunner(&own, data)
	stopWatching := context.AfterFunc(ctx, func() { r.c.fail(fmt.Errorf("stopped: %w", context.Cause(ctx))) })
	defer stopWatching()
	err = r.phases()
	r.c.stop()
	if failed := r.c.failure(); failed != nil {
		err = failed
	}
	rep := r.report(err)
	if o.HTML != "" {
		if writeErr := r.writeDiagram(rep); writeErr != nil {
			err = errors.Join(err, writeErr)
		}
	}
	if temporary && err == nil && rep.Verdict == check.Valid {
		rep.Data = ""
		if err := os.RemoveAll(data); err != nil {
			return rep, fmt.Errorf("remove %s: %w", data, err)
		}
	}
	return rep, err
}

// dataFolder is where nodes work. A folder that holds something would let them
// find the state of another run.
func dataFolder(o *Options) (path string, temporary bool, err error) {
	if o.Data == "" {
		path, err = os.MkdirTemp("", "maelstrom-")
		return path, true, err
	}
	if path, err = filepath.Abs(o.Data); err != nil {
		return "", false, fmt.Errorf("--data: %w", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", false, fmt.Errorf("--data: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", false, fmt.Errorf("--data: %w", err)
	}
	if len(entries) > 0 {
		return "", false, fmt.Errorf("--data %s is not empty: nodes would find the state of another run; name a new folder", path)
	}
	return path, false, nil
}

// lockedWriter lets several goroutines write whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// runner is one run under way.
type runner struct {
	o       *Options
	c       *cluster
	rec     *history.Recorder
	w       workload
	threads []*thread
	free    []bool
	idle    int // how many are free
	done    chan *history.Op
	data    string
	base    time.Duration // start of the main phase on the recorder's clock
	ended   time.Duration // of all phases
	mainEnd time.Duration
	acts    []doneAct
	actsMu  sync.Mutex
}

// doneAct is an act with the time at which it was done.
type doneAct struct {
	Act
	done time.Duration
}

func newRunner(o *Options, data string) *runner {
	rec := history.NewRecorder()
	r := &runner{o: o, rec: rec, c: newCluster(o, rec, data), w: newWorkload(o), data: data, done: make(chan *history.Op, o.threads)}
	return r
}

// phases runs the test: start, the main phase under the nemesis, healing, a pause,
// and the final phase.
func (r *runner) phases() error {
	fmt.Fprintf(r.o.Log, "%s: starting %d nodes of %s, folder %s\n", r.o.Workload, r.o.NodeCount, filepath.Base(r.o.Bin), r.data)
	if err := r.c.start(); err != nil {
		return err
	}
	r.openThreads()
	defer func() { r.ended = r.rec.Now() }()
	r.base = r.rec.Now()
	stopProgress := r.progress()
	defer stopProgress()
	var nemesis sync.WaitGroup
	over := make(chan struct{})
	nemesis.Go(func() { r.nemesis(over) })
	r.mainPhase()
	close(over)
	nemesis.Wait()
	r.closeThreads()
	r.mainEnd = r.rec.Now()
	if r.c.ended() {
		return nil
	}
	if err := r.c.heal(); err != nil {
		return err
	}
	return r.finalPhase()
}

// nemesis performs the plan until the main phase is over.
func (r *runner) nemesis(over <-chan struct{}) {
	for _, a := range Plan(r.o) {
		if wait := r.base + a.At - r.rec.Now(); wait > 0 && !pause(wait, over) {
			return
		}
		if r.c.ended() {
			return
		}
		if err := r.c.apply(a); err != nil {
			r.c.fail(err)
			return
		}
		r.actsMu.Lock()
		r.acts = append(r.acts, doneAct{a, r.rec.Now()})
		r.actsMu.Unlock()
	}
}

// progressEvery is how often a run tells how far it is.
const progressEvery = 5 * time.Second

func (r *runner) progress() (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for pause(progressEvery, over) {
			at := r.rec.Now() - r.base
			left := max(0, r.o.TimeLimit-at)
			what := fmt.Sprintf("%.0fs left", left.Seconds())
			if left == 0 {
				what = "healing and final phase"
			}
			fmt.Fprintf(r.o.Log, "%s: %.0fs, %d operations, %s\n", r.o.Workload, at.Seconds(), r.rec.Len(), what)
		}
	})
	return func() { close(over); wg.Wait() }
}

// finalPhase waits for the cluster to settle and lets every thread do what the
// workload does last, side by side.
func (r *runner) finalPhase() error {
	if r.w.final(0, nil) == nil {
		return nil
	}
	if r.o.Quiet > 0 && !pause(r.o.Quiet, r.c.closed) {
		return nil
	}
	if k, ok := r.w.(*kafka); ok {
		k.begin(time.Now())
	}
	var wg sync.WaitGroup
	for _, t := range r.threads {
		wg.Go(func() {
			var prev *history.Op
			for !r.c.ended() {
				op := r.w.final(t.number, prev)
				if op == nil {
					return
				}
				if prev != nil && prev.F == op.F && !pause(finalPollEvery, r.c.closed) {
					return
				}
				op.Final = true
				t.begin(op)
				t.perform(op)
				prev = op
			}
		})
	}
	wg.Wait()
	return nil
}
