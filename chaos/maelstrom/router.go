package maelstrom

import (
	"fmt"
	"sync"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// Traffic counts messages, as Maelstrom's net checker does.
type Traffic struct {
	Sent     int64   `json:"sent"`
	Received int64   `json:"received"`
	PerOp    float64 `json:"perOp"` // sent for each operation invoked
}

// link is one direction between two names.
type link struct{ src, dest string }

// router is the network: one inbox a receiver, latency and cuts by link.
type router struct {
	o     *Options
	clock *history.Recorder

	mu       sync.Mutex
	nextID   int64
	nextName int
	clients  map[string]*Client
	inboxes  map[string]*inbox
	former   map[string]bool // clients that were closed: what still comes for them is dropped
	threadOf map[string]int  // whose a client is or was, for the diagram
	counts   map[link]uint64 // messages so far where neither end is a client
	cuts     map[link]bool
	doubling bool
	all      Traffic
	servers  Traffic // neither end is a client
	doubled  int64
	lost     int64
	journal  *journal // nil: not wanted
}

func newRouter(o *Options, clock *history.Recorder) *router {
	r := &router{o: o, clock: clock, clients: map[string]*Client{}, inboxes: map[string]*inbox{}, former: map[string]bool{}, threadOf: map[string]int{},
		counts: map[link]uint64{}, cuts: map[link]bool{}}
	if o.HTML != "" {
		r.journal = &journal{}
	}
	return r
}

// isClient tells clients by name, as Maelstrom does.
func isClient(name string) bool { return name != "" && name[0] == 'c' }

// attach adds a receiver with an inbox: a node or a service.
func (r *router) attach(name string) *inbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := newInbox()
	r.inboxes[name] = b
	return b
}

// send puts a message on the network. The error is a name that does not exist.
func (r *router) send(m *Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{m.Src, m.Dest} {
		if r.inboxes[name] == nil && r.clients[name] == nil && !r.former[name] {
			return fmt.Errorf("no node, service or client is named %q", name)
		}
	}
	m.ID, m.sent = r.nextID, r.clock.Now()
	m.due, m.record = m.sent, -1
	r.nextID++
	r.all.Sent++
	between := !isClient(m.Src) && !isClient(m.Dest)
	twin := false
	if between {
		r.servers.Sent++
		l := link{m.Src, m.Dest}
		k := r.counts[l]
		r.counts[l]++
		m.due += r.o.delay(m.Src, m.Dest, k)
		twin = r.doubling && r.o.duplicated(m.Src, m.Dest, k)
	}
	if r.o.LogNetSend {
		fmt.Fprintf(r.o.Log, "send %s", m.line(nil))
	}
	if err := r.enqueue(m, false); err != nil || !twin {
		return err
	}
	double := *m
	r.doubled++
	// The copy's latency is that of a message no link ever reaches by counting.
	double.due = m.sent + r.o.delay(m.Src, m.Dest, 1<<63|uint64(m.ID))
	return r.enqueue(&double, true)
}

func (r *router) enqueue(m *Message, twin bool) error {
	if r.journal != nil {
		m.record = r.journal.add(m, twin)
	}
	if b := r.inboxes[m.Dest]; b != nil {
		if !b.put(m) {
			return fmt.Errorf("more than %d messages wait for %s", MaxInbox, m.Dest)
		}
		return nil
	}
	r.received(m)
	if c := r.clients[m.Dest]; c != nil {
		c.receive(m)
	}
	return nil
}

func (r *router) received(m *Message) {
	r.all.Received++
	if !isClient(m.Src) && !isClient(m.Dest) {
		r.servers.Received++
	}
	if r.o.LogNetRecv {
		fmt.Fprintf(r.o.Log, "recv %s", m.line(nil))
	}
	if r.journal != nil {
		r.journal.end(m.record, r.clock.Now(), Delivered)
	}
}

func (r *router) dropped(m *Message, fate Fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost++
	if r.journal != nil {
		r.journal.end(m.record, r.clock.Now(), fate)
	}
}

// drain hands the messages of one receiver over until the inbox is closed. A cut
// is looked at when a message is taken, before its time has come.
func (r *router) drain(b *inbox, closed <-chan struct{}, deliver func(m *Message, quiet bool) bool) {
	for {
		m, ok := b.take()
		if !ok {
			return
		}
		if r.isCut(m) {
			r.dropped(m, LostInCut)
			deliver(nil, true)
			continue
		}
		if wait := m.due - r.clock.Now(); wait > 0 && !pause(wait, closed) {
			return
		}
		if !deliver(m, b.quiet(r.clock.Now())) {
			r.dropped(m, LostDown)
			continue
		}
		r.mu.Lock()
		r.received(m)
		r.mu.Unlock()
	}
}

// pause waits that long; false when closed came first.
func pause(d time.Duration, closed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-closed:
		return false
	}
}

func (r *router) isCut(m *Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cuts[link{m.Src, m.Dest}]
}

// cut makes the receivers deaf; none heals all.
func (r *router) cut(cuts []Cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cuts)
	for _, c := range cuts {
		r.cuts[link{nodeName(c.Source), nodeName(c.Receiver)}] = true
	}
}

func (r *router) double(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubling = on
}

func (r *router) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.inboxes {
		b.close()
	}
}
