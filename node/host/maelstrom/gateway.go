package maelstrom

import (
	"slices"
	"time"

	"lockstep/node"
	"lockstep/node/host/maelstrom/rpc"
	"lockstep/node/wire"
)

// verdict is what the answer to one part of a request means.
type verdict uint8

const (
	partDone   verdict = iota // it happened
	partAgain                 // nothing happened: try again
	partDoubt                 // it may have happened, and trying again does no harm
	partFailed                // the request is over; the task has set its error
)

// task is one request of a client, as parts that are requests to a machine. The
// gateway starts parts, repeats those that surely did nothing, and answers when all
// are done, or when the time is over.
type task interface {
	// parts is how many requests it takes; 0 is answered at once.
	parts() int
	// where is the address to send a part to; "" is nowhere at the moment.
	where(g *gateway, now node.Now, began node.Time) string
	// request makes part i.
	request(i int) (code int32, header any, body []byte)
	// take judges the answer to part i.
	take(g *gateway, now node.Now, i int, f *wire.Frame) (verdict, *rpc.RPCError)
	// harmless: a part without an answer did nothing that matters.
	harmless() bool
	// definite: an error may promise that nothing happened, when nothing did.
	definite() bool
	// limit is how long the client waits.
	limit(p *Profile) time.Duration
	// reply is the answer when all parts are done.
	reply() any
}

// partial is a task whose answer may leave parts out, once it has waited.
type partial interface{ partly(age time.Duration) bool }

// ending is a task that wants to know that it is over.
type ending interface{ ended() }

// operation is a task under way.
type operation struct {
	task     task
	msg      rpc.Message // of the client; answered is true when there is none
	began    node.Time
	deadline node.Time
	state    []partState
	left     int  // parts not done
	open     int  // parts sent and not answered
	touched  bool // a part is done, or may be
	over     bool
	waiting  bool // in gateway.waiting
}

type partState uint8

const (
	partIdle partState = iota
	partSent
	partOver
)

// call is a request on a stream.
type call struct {
	op   *operation
	part int
}

// target is the gateway's stream to one machine.
type target struct {
	addr   string
	end    *end
	calls  map[int32]call
	dialAt node.Time
}

// gateway turns clients' requests into requests to the machines of the group.
type gateway struct {
	h        *Host
	targets  map[string]*target // by address
	order    []*target
	queue    [2][]*operation // in order of deadlines, one for each limit
	waiting  []*operation    // have parts to send
	againAt  node.Time       // when the waiting are tried
	dials    uint64
	opaque   int32
	creating map[string]bool // topics being made
	master   string          // address of the master by the record applied locally
	applied  uint64          // that record's place
	room     int             // parts that this batch may still send
	bigPolls int             // polls of many keys so far
}

// retryPause is between two tries of a part that did nothing.
const retryPause = 25 * time.Millisecond

// maxStarted bounds the parts sent in one batch, so that a request for thousands of
// keys does not hold up the others.
const maxStarted = 4096

// maxOperations bounds the requests under way; one more is answered "not now".
const maxOperations = 1 << 16

func newGateway(h *Host) *gateway {
	return &gateway{h: h, targets: map[string]*target{}, creating: map[string]bool{}, againAt: node.Never}
}

// begin starts a client's request that was read at the time at.
func (g *gateway) begin(at node.Time, m rpc.Message, t task) {
	if len(g.queue[0])+len(g.queue[1]) >= maxOperations {
		g.h.reply(&m, rpc.NewRPCError(rpc.TemporarilyUnavailable, "too many requests are under way; nothing was done"))
		return
	}
	g.start(at, m, t)
}

func (g *gateway) start(at node.Time, m rpc.Message, t task) {
	n := t.parts()
	op := &operation{task: t, msg: m, began: at, state: make([]partState, n), left: n}
	limit := t.limit(&g.h.o.Profile)
	op.deadline = at.Add(limit)
	class := 0
	if limit != g.h.o.Profile.Answer {
		class = 1
	}
	g.queue[class] = append(g.queue[class], op)
	if n == 0 {
		g.finish(op)
		return
	}
	g.wait(op)
	g.againAt = at
}

// wait puts op among those that have parts to send.
func (g *gateway) wait(op *operation) {
	if !op.waiting {
		op.waiting = true
		g.waiting = append(g.waiting, op)
	}
}

// batch begins a batch.
func (g *gateway) batch() { g.room = maxStarted }

// settle sends what can be sent and ends what is too late.
func (g *gateway) settle(now node.Now) {
	if now.Mono >= g.againAt && g.room > 0 {
		g.sendAll(now)
	}
	for i := range g.queue {
		g.queue[i] = g.expire(now, g.queue[i])
	}
}

func (g *gateway) deadline() node.Time {
	t := g.againAt
	for _, q := range g.queue {
		if len(q) > 0 {
			t = min(t, q[0].deadline)
		}
	}
	return t
}

// sendAll tries every waiting operation once.
func (g *gateway) sendAll(now node.Now) {
	g.findMaster()
	todo := g.waiting
	g.waiting, g.againAt = nil, node.Never
	for _, op := range todo {
		op.waiting = false
		if op.over {
			continue
		}
		if p, ok := op.task.(partial); ok && op.touched && p.partly(now.Mono.Sub(op.began)) {
			g.finish(op)
			continue
		}
		t := g.target(now, op.task.where(g, now, op.began))
		if t == nil {
			g.wait(op)
			continue
		}
		for i, s := range op.state {
			if s == partIdle && g.room > 0 {
				g.room--
				g.send(now, t, op, i)
			} else if s == partIdle {
				g.wait(op)
			}
		}
	}
	switch {
	case g.room == 0:
		g.againAt = now.Mono // the next batch goes on
	case len(g.waiting) > 0:
		g.againAt = now.Mono.Add(retryPause)
	}
}

// findMaster reads the master from the local controller's record.
func (g *gateway) findMaster() {
	c := g.h.controllerMachine()
	if c == nil {
		g.master, g.applied = "", 0
		return
	}
	if at := c.Applied(); at == g.applied {
		return
	}
	g.applied, g.master = c.Applied(), ""
	rec, ok := c.Record(group)
	if !ok || rec.Lost {
		return
	}
	for i := range rec.Members {
		if rec.Members[i].ID == rec.Master {
			g.master = rec.Members[i].Addr
		}
	}
}

// target is the open stream to an address, nil when there is none yet.
func (g *gateway) target(now node.Now, addr string) *target {
	if addr == "" {
		return nil
	}
	t := g.targets[addr]
	if t == nil {
		t = &target{addr: addr, calls: map[int32]call{}}
		g.targets[addr] = t
		g.order = append(g.order, t)
	}
	if t.end == nil && now.Mono >= t.dialAt {
		g.dials++
		t.end = g.h.net.dial(now, g, node.Dial{Session: node.Dialled | node.SessionID(g.dials), Link: wire.Remoting, Addr: addr})
	}
	if t.end == nil || !t.end.isUp {
		return nil
	}
	return t
}

func (g *gateway) send(now node.Now, t *target, op *operation, i int) {
	code, header, body := op.task.request(i)
	g.opaque++
	f := wire.NewRequest(code, g.opaque, header, body)
	t.calls[g.opaque] = call{op, i}
	op.state[i] = partSent
	op.open++
	g.h.net.send(now, t.end, &f)
}

// of finds the target of an end.
func (g *gateway) of(e *end) *target {
	i := slices.IndexFunc(g.order, func(t *target) bool { return t.end == e })
	if i < 0 {
		return nil
	}
	return g.order[i]
}

func (g *gateway) up(now node.Now, e *end) {
	if len(g.waiting) > 0 {
		g.againAt = now.Mono
	}
}

// down ends the calls of a stream: nobody knows what became of them.
func (g *gateway) down(now node.Now, e *end, reason string) {
	t := g.of(e)
	if t == nil {
		return
	}
	lost := t.calls
	t.end, t.calls, t.dialAt = nil, map[int32]call{}, now.Mono.Add(g.h.o.Profile.Redial)
	opaques := make([]int32, 0, len(lost))
	for o := range lost {
		opaques = append(opaques, o)
	}
	slices.Sort(opaques)
	for _, o := range opaques {
		c := lost[o]
		if c.op.over {
			continue
		}
		c.op.open--
		c.op.state[c.part] = partIdle
		if !c.op.task.harmless() {
			g.fail(c.op, rpc.NewRPCError(rpc.Crash, "the stream to the server of the request broke: "+reason))
			continue
		}
		g.again(now, c.op)
	}
}

// again sends the idle parts of op after a pause.
func (g *gateway) again(now node.Now, op *operation) {
	g.wait(op)
	g.againAt = min(g.againAt, now.Mono.Add(retryPause))
}

// receive takes an answer.
func (g *gateway) receive(now node.Now, e *end, f *wire.Frame) {
	t := g.of(e)
	if t == nil || !f.Head.Response() {
		return // machines also send requests, such as notices, to their clients
	}
	c, ok := t.calls[f.Head.Opaque]
	if !ok {
		return
	}
	delete(t.calls, f.Head.Opaque)
	op := c.op
	if op.over {
		return
	}
	op.open--
	op.state[c.part] = partIdle
	v, err := op.task.take(g, now, c.part, f)
	switch v {
	case partFailed:
		g.fail(op, err)
	case partAgain:
		g.again(now, op)
	case partDoubt:
		op.touched = true
		g.again(now, op)
	default:
		op.state[c.part] = partOver
		op.touched = true
		if op.left--; op.left == 0 {
			g.finish(op)
		}
	}
}

func (op *operation) end() {
	op.over = true
	if e, ok := op.task.(ending); ok {
		e.ended()
	}
}

// finish answers an operation all of whose parts are done.
func (g *gateway) finish(op *operation) {
	op.end()
	if body := op.task.reply(); body != nil {
		g.answer(op, body)
	}
}

// fail answers with an error. A definite one is believed only if no part happened
// and none is under way.
func (g *gateway) fail(op *operation, err *rpc.RPCError) {
	op.end()
	switch {
	case !rpc.Definite(err.Code):
	case !op.task.definite():
		err = rpc.NewRPCError(rpc.Crash, err.Text)
	case !op.task.harmless() && (op.touched || op.open > 0):
		err = rpc.NewRPCError(rpc.Crash, "part of it may have happened: "+err.Text)
	}
	if op.msg.Src != "" {
		g.answer(op, err)
	}
}

// tooLate is how long after its deadline an answer may still go: less than from the
// deadline to the client's own limit.
const tooLate = 300 * time.Millisecond

// answer writes the answer, unless a batch took so long that the client has given
// up: then it may be gone, and nothing may be sent to a name that is gone.
func (g *gateway) answer(op *operation, body any) {
	if limit := op.task.limit(&g.h.o.Profile); g.h.clock().Mono < op.deadline.Add(min(tooLate, limit/20)) {
		g.h.reply(&op.msg, body)
	}
}

// expire ends the operations that took too long and forgets those that are over.
func (g *gateway) expire(now node.Now, q []*operation) []*operation {
	for len(q) > 0 && (q[0].over || now.Mono >= q[0].deadline) {
		op := q[0]
		q[0] = nil
		q = q[1:]
		_, partly := op.task.(partial)
		switch {
		case op.over:
		case partly && op.touched:
			g.finish(op)
		case op.task.harmless() || !op.touched && op.open == 0:
			g.fail(op, rpc.NewRPCError(rpc.TemporarilyUnavailable, "no server of the group could take the request in time; nothing was done"))
		default:
			g.fail(op, rpc.NewRPCError(rpc.Timeout, "the outcome is unknown: it was not confirmed in time"))
		}
	}
	return q
}
