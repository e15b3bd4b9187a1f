package maelstrom

import (
	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/history"
	"lockstep/internal/prng"
)

// workload is what the clients of a run do.
type workload interface {
	// next is operation i, from 0, at that thread. It is called in order of i from
	// one goroutine and draws only from the seed, i and what it drew before.
	next(i, thread int) *history.Op
	// worker performs operations at one thread.
	worker(w *worker) performer
	// observe sees every operation when it is complete.
	observe(op *history.Op)
	// final is the next operation of the final phase at a thread, after prev (nil
	// for the first), or nil when the thread is done.
	final(thread int, prev *history.Op) *history.Op
	// check judges the history. faults says that something was broken.
	check(ops []*history.Op, faults bool) check.Result
}

// performer performs one operation and sets its outcome.
type performer interface{ do(op *history.Op) }

// worker is a thread of the generator with its client.
type worker struct {
	thread  int
	process int
	node    string
	client  *Client
	rec     *history.Recorder
	o       *Options
}

// draw is a generator for operation i of a run, apart from all others.
func draw(o *Options, site string, i int) *prng.Source {
	return prng.New(prng.Hash(o.Seed, prng.HashString(site), uint64(i)))
}

func newWorkload(o *Options) workload {
	switch o.Workload {
	case "kafka":
		return newKafka(o)
	case "lin-kv":
		return newLinKV(o)
	case "broadcast":
		return &broadcast{o: o}
	case "echo":
		return &echo{o: o}
	}
	return &uniqueIDs{o: o}
}
