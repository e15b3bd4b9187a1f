package scenarios

import (
	"fmt"
	"strconv"
	"time"

	"lockstep/checker"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/client"
)

// Topic is the topic every drill writes to.
const Topic = "DrillTopic"

// watchGroup is the consumer group of the watching consumers.
const watchGroup = "drill-watch"

// Clock gives the true time in nanoseconds: histories are never in a node's own
// time.
type Clock func() int64

// Load is the shared state of a run's applications: what to do, and the history
// of what happened.
type Load struct {
	Clock    Clock
	Queues   int
	Groups   []string
	Interval time.Duration // between two sends of one producer
	Body     int
	Stopped  bool                  // producers send no more
	Idle     bool                  // producers let the sends that fall due pass, consumers commit nothing
	Silent   bool                  // consumers never commit
	Offsets  map[string]*committed // by queue, what consumers were told
	Ops      []checker.Op
	Codes    map[string]int
	Sent     int
	Consumed int
	// OnDone and OnRead let judges follow along; nil is fine.
	OnDone func(o *client.Outcome, at int64)
	OnRead func(m *client.Received, at int64)

	open     map[sendID]int // index in Ops of sends under way
	lastAck  int64
	lastRead int64
	AckGap   int64
	ReadGap  int64
	// GroupErrors counts, by group, tries of sends bound to that group that did not
	// succeed; Moved are keys whose tries went to more than one group.
	GroupErrors map[string]map[string]int
	Moved       map[string]bool
	// Free are the keys of sends that may go to any group.
	Free map[string]bool

	firstAcked map[string]bool
	nextClient int
	watched    map[string]int64 // queue → next offset the watchers will ask for
	names      map[place]string // what queues are called
	ends       map[sendEnd]string
}

// sendEnd is how a send ended.
type sendEnd struct {
	status client.Status
	code   int32
}

type sendID struct {
	client int
	ticket client.Ticket
}

// NewLoad returns the load of a setup.
func NewLoad(s *Setup, clock Clock) *Load {
	l := &Load{Clock: clock, Silent: s.Silent, Offsets: map[string]*committed{}, Queues: s.Queues, Body: s.BodyBytes, Codes: map[string]int{}, open: map[sendID]int{},
		firstAcked: map[string]bool{}, watched: map[string]int64{}, names: map[place]string{}, ends: map[sendEnd]string{}, GroupErrors: map[string]map[string]int{}, Moved: map[string]bool{}, Free: map[string]bool{}}
	for g := range s.Groups {
		l.Groups = append(l.Groups, GroupName(g))
	}
	l.Interval = time.Duration(int64(time.Second) * int64(s.Clients) / int64(s.Rate))
	return l
}

// Ready reports whether every group has acknowledged a send.
func (l *Load) Ready() bool { return len(l.firstAcked) == len(l.Groups) }

// Open is the number of sends that have not ended.
func (l *Load) Open() int { return len(l.open) }

// place is one queue of a topic.
type place struct {
	group, topic string
	queue        int32
}

// queueName is queueName, remembered.
func (l *Load) queueName(group, topic string, queue int32) string {
	p := place{group, topic, queue}
	name := l.names[p]
	if name == "" {
		name = queueName(group, topic, queue)
		l.names[p] = name
	}
	return name
}

// queueName is how a queue is called in histories.
func queueName(group, topic string, queue int32) string {
	return fmt.Sprintf("%s/%s/%d", group, topic, queue)
}

// producer sends one message an interval to a drawn group and queue.
type producer struct {
	l      *Load
	id     int
	name   string // begins every key
	rnd    *prng.Source
	next   node.Time
	begun  bool
	made   bool // the topic exists as far as this producer knows
	asked  client.Ticket
	number int
	body   []byte
}

// NewProducer returns the application of a producing client machine. life keeps
// keys of a restarted client apart.
func (l *Load) NewProducer(id, life int, rnd *prng.Source) *producer {
	p := &producer{l: l, id: id, name: fmt.Sprintf("p%d.%d-", id, life), rnd: rnd, body: make([]byte, l.Body)}
	if _, err := rnd.Read(p.body); err != nil {
		panic(err) // a prng.Source never fails
	}
	for s := range l.open { // an earlier life will not learn how its sends ended
		if s.client == id {
			delete(l.open, s)
		}
	}
	return p
}

// Turn submits what is due and takes what has ended.
func (p *producer) Turn(now node.Now, m node.Machine) bool {
	c := m.(*client.Client)
	if !p.begun {
		p.begun = true
		p.next = now.Mono.Add(time.Duration(p.rnd.Between(0, int64(p.l.Interval))))
	}
	work := false
	for _, o := range c.Take() {
		p.take(&o)
	}
	if !p.made && p.asked == 0 {
		if t, err := c.CreateTopic(now, client.Topic{Name: Topic, ReadQueues: int32(p.l.Queues), WriteQueues: int32(p.l.Queues), Groups: p.l.Groups}); err == nil {
			p.asked, work = t, true
		}
	}
	for p.made && !p.l.Stopped && p.next <= now.Mono {
		p.next = p.next.Add(p.l.Interval)
		if p.next < now.Mono { // a pause must not become a burst without end
			p.next = now.Mono.Add(p.l.Interval)
		}
		if p.l.Idle {
			continue
		}
		p.send(c, now)
		work = true
	}
	return work
}

// Waits reports whether sends have ended.
func (p *producer) Waits(m node.Machine) bool { return m.(*client.Client).Ended() > 0 }

// Deadline is the next send.
func (p *producer) Deadline() node.Time {
	if p.l.Stopped || !p.made {
		return node.Never
	}
	return p.next
}

func (p *producer) send(c *client.Client, now node.Now) {
	p.number++
	key := p.name + strconv.Itoa(p.number)
	size := 1 + p.rnd.Intn(len(p.body))
	msg := client.Message{Topic: Topic, Key: key, Body: p.body[:size], Tag: "drill"}
	if p.rnd.Chance(1, 2) { // half are free to choose a broker, half are bound to a queue
		msg.Broker = p.l.Groups[p.rnd.Intn(len(p.l.Groups))]
		msg.Queue = int32(p.rnd.Intn(p.l.Queues))
	} else {
		p.l.Free[key] = true
	}
	t, err := c.Send(now, msg)
	if err != nil {
		p.l.Codes["client: "+err.Error()]++
		return
	}
	p.l.Sent++
	p.l.open[sendID{p.id, t}] = len(p.l.Ops)
	p.l.Ops = append(p.l.Ops, checker.Op{Client: p.id, Kind: checker.Send, Key: key, Invoke: p.l.Clock(), Return: checker.Open, Status: checker.Unknown, UnknownTries: maxTries})
}

// maxTries bounds the copies that a send which never ended may have left.
const maxTries = 8

func (p *producer) take(o *client.Outcome) {
	at := p.l.Clock()
	switch o.Op {
	case client.OpCreateTopic:
		p.asked = 0
		p.made = o.Status == client.Done
		return
	case client.OpSend:
	default:
		return
	}
	i, ok := p.l.open[sendID{p.id, o.Ticket}]
	if !ok {
		return
	}
	delete(p.l.open, sendID{p.id, o.Ticket})
	op := &p.l.Ops[i]
	op.UnknownTries = o.UnknownTries()
	op.Queue, op.Offset = p.l.queueName(o.Broker, o.Topic, o.Queue), o.Offset
	p.l.count(o)
	switch o.Status {
	case client.Done:
		op.Status, op.Return = checker.Done, at
		p.l.acked(o, at)
	case client.NotDone:
		op.Status, op.Return = checker.Refused, at
	case client.Unknown:
		op.UnknownTries = max(op.UnknownTries, len(o.Tries))
	}
	if p.l.OnDone != nil {
		p.l.OnDone(o, at)
	}
}

func (l *Load) count(o *client.Outcome) {
	end := sendEnd{o.Status, o.Code}
	if l.ends[end] == "" {
		l.ends[end] = o.Status.String()
		if o.Code != client.NoCode {
			l.ends[end] = fmt.Sprintf("%s code %d", o.Status, o.Code)
		}
	}
	l.Codes[l.ends[end]]++
	for i := range o.Tries {
		t := &o.Tries[i]
		if t.Broker != o.Broker {
			l.Moved[o.Key] = true
		}
		if t.End == client.TryDone || t.Broker == "" {
			continue
		}
		if l.GroupErrors[t.Broker] == nil {
			l.GroupErrors[t.Broker] = map[string]int{}
		}
		l.GroupErrors[t.Broker][fmt.Sprintf("%s code %d %s", t.End, t.Code, t.Remark)]++
	}
}

func (l *Load) acked(o *client.Outcome, at int64) {
	l.firstAcked[o.Broker] = true
	if l.lastAck > 0 {
		l.AckGap = max(l.AckGap, at-l.lastAck)
	}
	l.lastAck = at
}

// watcher pulls its queues of the topic from their beginning and commits how far it
// has come, but always goes on from where it is.
type watcher struct {
	l     *Load
	id    int
	tails []watchedQueue
	asked map[client.Ticket]int
	retry node.Time

	commits map[client.Ticket]int // commits under way
}

type watchedQueue struct {
	group string
	queue int32
	next  int64
	busy  bool
	after node.Time // not before, after an error

	owned      bool // this watcher commits the queue's offset
	committing bool
	stored     int64     // newest offset whose commit was answered
	commitAt   node.Time // not before
}

// watchRetry is the pause of a watcher after a pull that failed.
const watchRetry = 200 * time.Millisecond

// firstWatcher is the number of the first watcher in histories.
const firstWatcher = 100

// NewWatcher returns the application of the n-th consuming client machine: as
// members of one consumer group they share the queues, unless all is set.
func (l *Load) NewWatcher(n int, all bool) *watcher {
	w := &watcher{l: l, id: firstWatcher + n, asked: map[client.Ticket]int{}, retry: node.Never, commits: map[client.Ticket]int{}}
	for g, name := range l.Groups {
		for q := range l.Queues {
			mine := (g*l.Queues+q)%watchers == n
			if !all && !mine {
				continue
			}
			w.tails = append(w.tails, watchedQueue{group: name, queue: int32(q), owned: mine})
		}
	}
	return w
}

// Turn keeps one pull under way for each queue.
func (w *watcher) Turn(now node.Now, m node.Machine) bool {
	c := m.(*client.Client)
	for _, o := range c.Take() {
		w.take(now, &o)
	}
	work := w.commit(now, c)
	w.retry = node.Never
	for i := range w.tails {
		t := &w.tails[i]
		switch {
		case t.busy:
		case t.after > now.Mono:
			w.retry = min(w.retry, t.after)
		default:
			ticket, err := c.Pull(now, client.PullRequest{Topic: Topic, Broker: t.group, Queue: t.queue, Offset: t.next, Suspend: true})
			if err != nil {
				t.after = now.Mono.Add(watchRetry)
				w.retry = min(w.retry, t.after)
				continue
			}
			t.busy, work = true, true
			w.asked[ticket] = i
		}
	}
	return work
}

// Waits reports whether pulls have ended.
func (w *watcher) Waits(m node.Machine) bool { return m.(*client.Client).Ended() > 0 }

// Deadline is the next retry or commit.
func (w *watcher) Deadline() node.Time { return min(w.retry, w.commitDue()) }

func (w *watcher) take(now node.Now, o *client.Outcome) {
	if o.Op == client.OpCommit {
		w.committedNow(o)
		return
	}
	i, ok := w.asked[o.Ticket]
	if !ok || o.Op != client.OpPull {
		return
	}
	delete(w.asked, o.Ticket)
	t := &w.tails[i]
	t.busy = false
	if o.Status != client.Done {
		t.after = now.Mono.Add(watchRetry)
		return
	}
	at := w.l.Clock()
	for k := range o.Messages {
		r := &o.Messages[k]
		w.l.read(w.id, r, o.Started, now, at)
	}
	t.next = o.Next
	name := w.l.queueName(t.group, Topic, t.queue)
	w.l.watched[name] = max(w.l.watched[name], t.next)
	if len(o.Messages) == 0 && o.Next == o.Offset && o.Code != 0 {
		t.after = now.Mono.Add(time.Millisecond) // a broker that cannot hold the pull must not spin us
	}
}

func (l *Load) read(id int, r *client.Received, began node.Time, now node.Now, at int64) {
	l.Consumed++
	if l.lastRead > 0 {
		l.ReadGap = max(l.ReadGap, at-l.lastRead)
	}
	l.lastRead = at
	l.Ops = append(l.Ops, checker.Op{Client: id, Kind: checker.Read, Key: r.Key, Queue: l.queueName(r.Broker, r.Topic, r.Queue),
		Offset: r.QueueOffset, Invoke: at - int64(now.Mono.Sub(began)), Return: at, Status: checker.Done})
	if l.OnRead != nil {
		l.OnRead(r, at)
	}
}
