package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// toyStore writes a log file and a two-step "save".
type toyStore struct {
	fs  vfs.FS
	log vfs.File
}

func openToyStore(fs vfs.FS) (*toyStore, int64, error) {
	f, err := fs.Open("log")
	if err != nil {
		if f, err = fs.Create("log"); err == nil {
			err = fs.SyncDir(".")
		}
	}
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	return &toyStore{fs, f}, size, err
}

func (s *toyStore) Do(op storage.Op) storage.Result {
	r := storage.Result{Op: op}
	switch op.Kind {
	case storage.OpAppend:
		off := int64(op.Off)
		for _, d := range op.Data {
			if _, err := s.log.WriteAt(d, off); err != nil {
				r.Err = err
				return r
			}
			off += int64(len(d))
		}
	case storage.OpSync:
		r.Err = s.log.Sync()
	case storage.OpSave:
		r.Err = vfs.WriteAtomic(s.fs, op.Name, op.Blob)
	case storage.OpRead:
		r.Bytes = make([]byte, op.Max)
		_, r.Err = s.log.ReadAt(r.Bytes, int64(op.Off))
	}
	return r
}

// echo answers each frame once its body is durable in the log: a small server
// with watermarks.
type echo struct {
	addr                 string
	end, written, synced int64
	issued, syncing      int64
	nextOp               uint64
	waiters              []waiter
	pendingData          [][]byte
	inflight             bool
	sync                 bool
	now                  node.Time
	served               int
	stop                 bool
	failed               string
	marks                int
	announced            bool
	break_               string // how it misbehaves
	spoil, lastBody      []byte
}

type waiter struct {
	s   node.SessionID
	off int64
	f   *wire.Frame
}

func newEcho(addr string, end int64) *echo {
	return &echo{addr: addr, end: end, written: end, synced: end, issued: end}
}

func (e *echo) SessionUp(now node.Now, s node.SessionID, p node.Peer) {}
func (e *echo) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	body := f.Body
	if len(body) == 0 {
		body = []byte{1}
	}
	e.pendingData = append(e.pendingData, body)
	e.end += int64(len(body))
	e.waiters = append(e.waiters, waiter{s, e.end, f})
}
func (e *echo) SessionDown(now node.Now, s node.SessionID, reason string) {
	keep := e.waiters[:0]
	for _, w := range e.waiters {
		if w.s != s {
			keep = append(keep, w)
		}
	}
	e.waiters = keep
}
func (e *echo) DiskDone(now node.Now, r storage.Result) {
	if r.Err != nil {
		e.failed = r.Err.Error()
		return
	}
	switch r.Op.Kind {
	case storage.OpAppend:
		e.inflight = false
		e.written = int64(r.Op.Off)
		for _, d := range r.Op.Data {
			e.written += int64(len(d))
		}
	case storage.OpSync:
		e.sync = false
		e.synced = int64(r.Op.Off)
	}
}
func (e *echo) Stop(now node.Now) { e.stop = true }
func (e *echo) Settle(now node.Now, fx *node.Effects) {
	if e.failed != "" || e.stop {
		if fx.Exit == nil && e.failed != "done" {
			code := node.ExitClean
			if e.failed != "" {
				code = node.ExitSuspect
			}
			fx.Exit = &node.Exit{Code: code, Reason: e.failed}
			e.failed = "done"
		}
		return
	}
	if !e.announced {
		e.announced = true
		fx.Emit(event.Event{Kind: event.Started, Off: ha.LogOffset(e.end)})
	}
	if e.break_ == "reuse" && e.lastBody != nil {
		e.lastBody[50]++ // as if its memory were recycled
	}
	if e.break_ == "spoil" && e.inflight {
		e.spoil[len(e.spoil)-1]++
	}
	if !e.inflight && e.issued < e.end {
		e.nextOp++
		e.inflight = true
		fx.Disk = append(fx.Disk, storage.Op{ID: e.nextOp, Lane: storage.LaneLog, Kind: storage.OpAppend, Off: ha.LogOffset(e.issued), Data: e.pendingData})
		e.spoil = e.pendingData[0]
		e.pendingData = nil
		e.issued = e.end
	}
	if !e.sync && e.written > e.synced {
		e.nextOp++
		e.sync = true
		fx.Disk = append(fx.Disk, storage.Op{ID: e.nextOp, Lane: storage.LaneSync, Kind: storage.OpSync, Off: ha.LogOffset(e.written)})
	}
	done := 0
	for _, w := range e.waiters {
		if w.off > e.synced {
			break
		}
		done++
		e.served++
		fx.Send(w.s, wire.Frame{Head: wire.Head{Code: 0, Sealed: true, Opaque: w.f.Head.Opaque, Flag: wire.FlagResponse, Language: "GO"}, Body: w.f.Body})
		if e.served%10 == 0 {
			fx.Emit(event.Event{Kind: event.Mark, Text: "ten", Off: ha.LogOffset(w.off)})
		}
	}
	if done > 0 {
		e.lastBody = e.waiters[done-1].f.Body
	}
	e.waiters = e.waiters[:copy(e.waiters, e.waiters[done:])]
	if e.break_ == "twice" {
		fx.Emit(event.Event{Kind: event.Mark, Text: "again"})
	}
}
func (e *echo) Deadline() node.Time {
	if e.break_ == "spin" {
		return 0
	}
	return node.Never
}
func (e *echo) Listeners() []node.Listener {
	return []node.Listener{{Link: wire.Remoting, Addr: e.addr}}
}
func (e *echo) CheckInvariants() {
	invariant.That(e.synced <= e.written && e.written <= e.end, "watermarks: %d %d %d", e.synced, e.written, e.end)
	invariant.That(e.break_ != "panic" || e.served < 25, "served %d", e.served)
}
func (e *echo) Conditions() []node.Condition        { return nil }
func (e *echo) Gauges(func(name string, v float64)) {}

// pinger keeps one request open against its server and redials when the
// session ends.
type pinger struct {
	target   string
	session  node.SessionID
	next     node.SessionID
	up       bool
	dialling bool
	opaque   int32
	waiting  bool
	retryAt  node.Time
	ok, lost int
	reasons  []string
	ups      int
	at       node.Time
	slowest  time.Duration
	last     node.Time
	size     int
	window   int
	open     int
	random   func() uint64
	patience time.Duration // closes a session that does not answer for so long; 0 never
}

func newPinger(target string) *pinger { return &pinger{target: target, size: 100, window: 1} }

func (p *pinger) SessionUp(now node.Now, s node.SessionID, _ node.Peer) {
	if s == p.session {
		p.up, p.dialling = true, false
		p.ups++
	}
}
func (p *pinger) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	if s != p.session {
		return
	}
	invariant.That(len(f.Body) == p.size, "body of %d bytes", len(f.Body))
	invariant.That(binary.BigEndian.Uint32(f.Body) == uint32(f.Head.Opaque), "wrong body for %d", f.Head.Opaque)
	p.open--
	p.ok++
	p.slowest = max(p.slowest, now.Mono.Sub(p.at))
	p.last = now.Mono
}
func (p *pinger) SessionDown(now node.Now, s node.SessionID, reason string) {
	if s != p.session {
		return
	}
	p.reasons = append(p.reasons, reason)
	p.lost += p.open
	p.up, p.dialling, p.open = false, false, 0
	p.retryAt = now.Mono.Add(100 * time.Millisecond)
}
func (p *pinger) DiskDone(node.Now, storage.Result) {}
func (p *pinger) Stop(node.Now)                     {}
func (p *pinger) Settle(now node.Now, fx *node.Effects) {
	if !p.up && !p.dialling && now.Mono >= p.retryAt && p.open == 0 {
		p.next++
		p.session = p.next | node.Dialled
		p.dialling = true
		fx.Dials = append(fx.Dials, node.Dial{Session: p.session, Addr: p.target})
	}
	if p.up && p.open > 0 && p.patience > 0 && now.Mono >= p.at.Add(p.patience) {
		p.up = false // SessionDown follows
		fx.Closes = append(fx.Closes, p.session)
	}
	for p.up && p.open < p.window {
		p.open++
		p.opaque++
		p.at = now.Mono
		body := make([]byte, p.size)
		binary.BigEndian.PutUint32(body, uint32(p.opaque))
		if p.random != nil {
			binary.BigEndian.PutUint64(body[8:], p.random())
		}
		fx.Send(p.session, wire.Frame{Head: wire.Head{Code: 310, Sealed: true, Opaque: p.opaque, Language: "GO"}, Body: body})
	}
}
func (p *pinger) Deadline() node.Time {
	if !p.up && !p.dialling && p.open == 0 {
		return p.retryAt
	}
	if p.up && p.open > 0 && p.patience > 0 {
		return p.at.Add(p.patience)
	}
	return node.Never
}
func (p *pinger) Listeners() []node.Listener          { return nil }
func (p *pinger) CheckInvariants()                    {}
func (p *pinger) Conditions() []node.Condition        { return nil }
func (p *pinger) Gauges(func(name string, v float64)) {}

// echoSpec is a server with a store.
func echoSpec(name string) NodeSpec {
	return NodeSpec{Name: name, Boot: func(l Life) (node.Machine, Doer, error) {
		s, end, err := openToyStore(l.Disk)
		if err != nil {
			return nil, nil, fmt.Errorf("open toy store: %w", err)
		}
		return newEcho(name+":1", end), s, nil
	}}
}

// patientSpec is a client of target that closes a session after 3 s of silence.
func patientSpec(name, target string) NodeSpec {
	return NodeSpec{Name: name, Boot: func(Life) (node.Machine, Doer, error) {
		p := newPinger(target)
		p.patience = 3 * time.Second
		return p, nil, nil
	}}
}

// pingSpec is a client of target.
func pingSpec(name, target string) NodeSpec {
	return NodeSpec{Name: name, Boot: func(Life) (node.Machine, Doer, error) { return newPinger(target), nil, nil }}
}

// toyWorld has two servers and three clients.
func toyWorld(open func(Options, *Plan) *World, opts Options, p *Plan) *World {
	w := open(opts, p)
	w.Add(echoSpec("s1"))
	w.Add(echoSpec("s2"))
	w.Add(pingSpec("c1", "s1:1"))
	w.Add(pingSpec("c2", "s1:1"))
	w.Add(pingSpec("c3", "s2:1"))
	return w
}

func pingOf(w *World, name string) *pinger { return w.Machine(name).(*pinger) }
func echoOf(w *World, name string) *echo   { return w.Machine(name).(*echo) }

// quiet swallows raft's log lines.
var quiet = log.New(io.Discard, "", 0)
