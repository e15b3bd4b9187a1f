package maelstrom

import (
	"strconv"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/history"
)

// Constants of the lin-kv workload.
const (
	linKVProcesses = 20 // that may touch a key before it is retired
	linKVValues    = 5  // values are 0…4
)

// linKV works each key with a group of threads, two for each node: half of them
// only read, the others write and compare-and-set at one to two.
type linKV struct {
	o       *Options
	nextKey int
	groups  []*keyGroup
	process []int // of each thread, as next was told last
}

// keyGroup is the key that a group of threads works, and who touched it.
type keyGroup struct {
	key       int
	processes map[int]bool
}

func newLinKV(o *Options) *linKV {
	l := &linKV{o: o, process: make([]int, o.threads)}
	for i := range l.process {
		l.process[i] = i
	}
	for range o.threads / (2 * o.NodeCount) {
		l.groups = append(l.groups, l.fresh())
	}
	return l
}

func (l *linKV) fresh() *keyGroup {
	l.nextKey++
	return &keyGroup{key: l.nextKey - 1, processes: map[int]bool{}}
}

func (l *linKV) next(i, thread int) *history.Op {
	size := 2 * l.o.NodeCount
	g := thread / size
	if known := l.groups[g].processes; !known[l.process[thread]] && len(known) >= linKVProcesses {
		l.groups[g] = l.fresh()
	}
	l.groups[g].processes[l.process[thread]] = true
	src := draw(l.o, "lin-kv", i)
	op := &history.Op{F: history.Read, Key: strconv.Itoa(l.groups[g].key)}
	if thread%size >= l.o.NodeCount {
		op.F, op.Msg = history.Write, int64(src.Intn(linKVValues))
		if src.Intn(3) > 0 {
			op.F, op.From = history.CAS, int64(src.Intn(linKVValues))
		}
	}
	return op
}

// observe sees that a thread got another process. The scheduler calls it before
// it asks next for that thread again.
func (l *linKV) observe(op *history.Op) {
	if op.Type == history.Info {
		l.process[op.Thread] = op.Process + l.o.threads
	}
}

func (l *linKV) final(int, *history.Op) *history.Op { return nil }

func (l *linKV) check(ops []*history.Op, _ bool) check.Result {
	return check.LinKV(ops, l.o.CheckLimit)
}

func (l *linKV) worker(w *worker) performer { return &linKVWorker{w} }

type linKVWorker struct{ *worker }

func (w *linKVWorker) do(op *history.Op) {
	key, err := strconv.Atoi(op.Key)
	if err != nil {
		panic(err) // next made it from a number
	}
	request := map[string]any{"type": op.F, "key": key}
	var want map[string]any
	switch op.F {
	case history.Read:
		want = map[string]any{"value": &op.Value}
	case history.Write:
		request["value"] = op.Msg
	default:
		request["from"], request["to"] = op.From, op.Msg
	}
	settle(op, w.client.Call(w.node, w.o.Timeout(), request, want), op.F == history.Read)
}
