package maelstrom

import (
	"sync"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// thread performs one operation at a time at one node.
type thread struct {
	number  int
	r       *runner
	w       *worker
	perform func(op *history.Op)
	in      chan *history.Op
	wg      sync.WaitGroup
}

func (r *runner) openThreads() {
	for i := range r.o.threads {
		t := &thread{number: i, r: r, in: make(chan *history.Op, 1)}
		t.w = &worker{thread: i, process: i, node: nodeName(i % r.o.NodeCount), client: r.c.r.openFor(i, r.c.closed), rec: r.rec, o: r.o}
		performer := r.w.worker(t.w)
		t.perform = func(op *history.Op) {
			performer.do(op)
			r.rec.Complete(op)
			if op.Type != history.Info {
				return
			}
			// The process is gone: another takes its place. kafka's comes with a
			// new client that holds nothing.
			t.w.process += r.o.threads
			if r.o.Workload == "kafka" {
				t.w.client.Close()
				t.w.client = r.c.r.openFor(i, r.c.closed)
				performer = r.w.worker(t.w)
			}
		}
		t.wg.Go(func() {
			for op := range t.in {
				t.perform(op)
				r.done <- op
			}
		})
		r.threads, r.free = append(r.threads, t), append(r.free, true)
	}
	r.idle = len(r.threads)
}

// closeThreads ends the goroutines; the threads can still perform.
func (r *runner) closeThreads() {
	for _, t := range r.threads {
		close(t.in)
		t.wg.Wait()
	}
}

// begin enters an operation into the history.
func (t *thread) begin(op *history.Op) {
	op.Thread, op.Process, op.Node = t.number, t.w.process, t.number%t.r.o.NodeCount
	t.r.rec.Invoke(op)
}

// maxBehind is how late the schedule may be before it moves on as a whole. Below
// that it catches up.
const maxBehind = 10 * time.Millisecond

// gap is the time between operations i-1 and i: uniform from 0 to 2/rate.
func (o *Options) gap(i int) time.Duration {
	return time.Duration(unit(draw(o, "gap", i).Uint64()) * 2 / o.Rate * float64(time.Second))
}

// mainPhase dispatches operations at their times to free threads until the time
// limit or the last one wanted, then waits for those under way.
func (r *runner) mainPhase() {
	next, crash, i := time.Duration(-1), time.Duration(-1), 0
	if r.o.Rate > 0 {
		next = r.o.gap(0)
	}
	k, _ := r.w.(*kafka)
	if k != nil {
		crash = k.crash(0)
	}
	for crashes := 0; !r.c.ended(); {
		now := r.rec.Now() - r.base
		if now >= r.o.TimeLimit || r.o.MaxOps > 0 && i == r.o.MaxOps {
			break
		}
		r.collect()
		switch {
		case r.idle > 0 && crash >= 0 && crash <= now:
			r.dispatch(&history.Op{F: history.Crash}, r.choose("crash-thread", crashes))
			crash, crashes = k.crash(crash), crashes+1
		case r.idle > 0 && next >= 0 && next <= now:
			t := r.choose("thread", i)
			r.dispatch(r.w.next(i, t), t)
			if i++; now-next > maxBehind {
				next = now
			}
			next += r.o.gap(i)
		default:
			r.wait(now, next, crash)
		}
	}
	for r.idle < len(r.threads) {
		r.finish(<-r.done)
	}
}

// wait sleeps until an operation ends or the next thing is due.
func (r *runner) wait(now, next, crash time.Duration) {
	until := r.o.TimeLimit
	if r.idle > 0 {
		for _, due := range []time.Duration{next, crash} {
			if due >= 0 {
				until = min(until, due)
			}
		}
	}
	t := time.NewTimer(until - now)
	defer t.Stop()
	select {
	case op := <-r.done:
		r.finish(op)
	case <-t.C:
	case <-r.c.closed:
	}
}

// collect takes the operations that have ended without waiting.
func (r *runner) collect() {
	for {
		select {
		case op := <-r.done:
			r.finish(op)
		default:
			return
		}
	}
}

func (r *runner) finish(op *history.Op) {
	r.w.observe(op)
	r.free[op.Thread] = true
	r.idle++
}

// choose draws a thread, or takes the next free one after it.
func (r *runner) choose(site string, i int) int {
	t := draw(r.o, site, i).Intn(len(r.threads))
	for !r.free[t] {
		t = (t + 1) % len(r.threads)
	}
	return t
}

func (r *runner) dispatch(op *history.Op, thread int) {
	r.free[thread] = false
	r.idle--
	t := r.threads[thread]
	t.begin(op)
	t.in <- op
}
