package checker

import "sort"

// QueueReport is what the direct queue checker counted beside its findings.
type QueueReport struct {
	Acknowledged int
	Unknown      int
	Refused      int
	Duplicates   int // extra copies within what unknown tries allow
	Lost         int // acknowledged and not in the final queue, allowed or not
	Overlap      int // operations that overlap another client's
}

// CheckQueues is the direct checker of append/read logs; it always decides:
//   - a queue offset holds one value for ever, whoever saw it: producer, consumer, final state;
//   - an acknowledged send is at its offset in the final queue, and so is whatever a
//     consumer has read;
//   - a send that was answered before another began has the smaller offset;
//   - nothing is read before its send began, and nothing that nobody sent;
//   - a refused message never appears;
//   - copies of a key are at most one plus the tries that ended unknown;
//   - final offsets are dense and begin at 0 unless retention may have taken the first.
func CheckQueues(h *History) ([]Finding, QueueReport) {
	c := queueCheck{h: h, sends: map[string]*Op{}, at: map[place]seen{}}
	c.collect()
	c.vacuous()
	c.values()
	c.presence()
	c.order()
	c.copies()
	return c.out, c.rep
}

type place struct {
	queue  string
	offset int64
}

type seen struct {
	key string
	by  string
}

type queueCheck struct {
	h     *History
	out   []Finding
	rep   QueueReport
	sends map[string]*Op
	at    map[place]seen
	told  map[place]bool // places reported as read and lost
}

func (c *queueCheck) fail(name string, at int64, format string, args ...any) {
	c.out = append(c.out, finding("queue", name, at, format, args...))
}

func (c *queueCheck) collect() {
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		if op.Invoke > op.Return {
			c.fail("time", op.Invoke, "operation on %s ends at %d before it begins at %d", op.Key, op.Return, op.Invoke)
		}
		if op.Kind != Send {
			continue
		}
		if c.sends[op.Key] != nil {
			c.fail("key-reused", op.Invoke, "two logical sends carry key %s", op.Key)
		}
		c.sends[op.Key] = op
		switch op.Status {
		case Done:
			c.rep.Acknowledged++
		case Unknown:
			c.rep.Unknown++
		case Refused:
			c.rep.Refused++
		}
	}
}

// vacuous fails a history that could not have shown an anomaly.
func (c *queueCheck) vacuous() {
	clients := map[int]bool{}
	for _, op := range c.h.Ops {
		clients[op.Client] = true
	}
	c.rep.Overlap = overlaps(c.h.Ops)
	switch {
	case len(c.h.Ops) == 0:
		c.fail("vacuous", 0, "the history is empty")
	case len(clients) < c.h.MinClients:
		c.fail("vacuous", 0, "%d clients, at least %d are needed", len(clients), c.h.MinClients)
	case c.rep.Overlap < c.h.MinOverlap:
		c.fail("vacuous", 0, "%d overlapping operations, at least %d are needed", c.rep.Overlap, c.h.MinOverlap)
	}
}

// overlaps counts operations that begin while another client's is open.
func overlaps(ops []Op) int {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return ops[order[a]].Invoke < ops[order[b]].Invoke })
	n := 0
	until, owner := int64(-1), -1
	for _, i := range order {
		op := &ops[i]
		if op.Invoke < until && op.Client != owner {
			n++
		}
		if op.Return > until {
			until, owner = op.Return, op.Client
		}
	}
	return n
}

// values checks that a place never changes its value.
func (c *queueCheck) values() {
	for _, q := range sortedKeys(c.h.Final) {
		for i, e := range c.h.Final[q] {
			if i == 0 && e.Offset != 0 && !c.h.Expires {
				c.fail("gap", 0, "%s begins at offset %d", q, e.Offset)
			}
			if i > 0 && e.Offset != c.h.Final[q][i-1].Offset+1 {
				c.fail("gap", 0, "%s jumps from offset %d to %d", q, c.h.Final[q][i-1].Offset, e.Offset)
			}
			c.see(place{q, e.Offset}, e.Key, "the final queue", 0)
		}
	}
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		switch {
		case op.Kind == Read:
			c.see(place{op.Queue, op.Offset}, op.Key, "a consumer", op.Return)
			c.readOf(op)
		case op.Status == Done:
			c.see(place{op.Queue, op.Offset}, op.Key, "its producer", op.Return)
		}
	}
}

func (c *queueCheck) see(p place, key, by string, at int64) {
	old, ok := c.at[p]
	switch {
	case !ok, c.h.allowed(old.key) && !c.h.allowed(key): // what took the place of an allowed loss is held to it
		c.at[p] = seen{key, by}
	case old.key != key && !c.h.allowed(key) && !c.h.allowed(old.key):
		c.fail("value-changed", at, "%s offset %d is %s for %s and %s for %s", p.queue, p.offset, old.key, old.by, key, by)
	}
}

func (c *queueCheck) readOf(op *Op) {
	s := c.sends[op.Key]
	switch {
	case s == nil:
		c.fail("phantom", op.Return, "%s offset %d delivers %s, which nobody sent", op.Queue, op.Offset, op.Key)
	case op.Return < s.Invoke:
		c.fail("read-before-send", op.Return, "%s was delivered before its send began", op.Key)
	case s.Status == Refused:
		c.fail("refused-appears", op.Return, "%s was refused, yet %s offset %d delivers it", op.Key, op.Queue, op.Offset)
	}
}

// presence checks that what was acknowledged is where it was said to be, and that
// what was read stays.
func (c *queueCheck) presence() {
	final := map[place]string{}
	first := map[string]int64{}
	for _, q := range sortedKeys(c.h.Final) {
		for i, e := range c.h.Final[q] {
			if i == 0 {
				first[q] = e.Offset
			}
			final[place{q, e.Offset}] = e.Key
			if s := c.sends[e.Key]; s != nil && s.Status == Refused {
				c.fail("refused-appears", 0, "%s was refused, yet it is at %s offset %d", e.Key, q, e.Offset)
			}
		}
	}
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		if op.Status != Done || final[place{op.Queue, op.Offset}] == op.Key {
			continue
		}
		if f, ok := first[op.Queue]; ok && op.Offset < f && c.h.Expires {
			continue // expired by retention
		}
		if op.Kind == Read {
			c.gone(op)
			continue
		}
		c.rep.Lost++
		if !c.h.allowed(op.Key) {
			c.fail("lost", op.Return, "%s was acknowledged at %s offset %d and is not there", op.Key, op.Queue, op.Offset)
		}
	}
}

// gone judges a read whose message is not in the final queue: visible means stays. A
// place that now holds another message has been reported by values.
func (c *queueCheck) gone(op *Op) {
	p := place{op.Queue, op.Offset}
	if s := c.sends[op.Key]; s == nil || c.h.allowed(op.Key) || c.at[p].key != op.Key || c.told[p] {
		return
	}
	if c.told == nil {
		c.told = map[place]bool{}
	}
	c.told[p] = true
	c.fail("read-lost", op.Return, "%s was read at %s offset %d and is not there", op.Key, op.Queue, op.Offset)
}

// order checks real-time order of acknowledged sends of one queue.
func (c *queueCheck) order() {
	byQueue := map[string][]*Op{}
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		if op.Kind == Send && op.Status == Done && !c.h.allowed(op.Key) {
			byQueue[op.Queue] = append(byQueue[op.Queue], op)
		}
	}
	for _, q := range sortedKeys(byQueue) {
		ops := byQueue[q]
		sort.Slice(ops, func(i, j int) bool { return ops[i].Offset < ops[j].Offset })
		// Walking up the offsets, the latest begin so far must not be after the end of a later offset.
		var latest *Op
		for _, op := range ops {
			if latest != nil && op.Return < latest.Invoke {
				c.fail("reordered", op.Return, "%s (offset %d) was answered before %s (offset %d) began, in %s",
					op.Key, op.Offset, latest.Key, latest.Offset, q)
			}
			if latest == nil || op.Invoke > latest.Invoke {
				latest = op
			}
		}
	}
}

// copies counts duplicates and bounds them.
func (c *queueCheck) copies() {
	count := map[string]int{}
	for _, q := range sortedKeys(c.h.Final) {
		for _, e := range c.h.Final[q] {
			count[e.Key]++
		}
	}
	for _, key := range sortedKeys(count) {
		s := c.sends[key]
		if s == nil {
			c.fail("phantom", 0, "%s is in the final queue and nobody sent it", key)
			continue
		}
		bound := s.UnknownTries
		if s.Status == Done {
			bound++
		}
		if count[key] > max(bound, 1) {
			c.fail("duplicated", 0, "%s has %d copies, its tries explain %d", key, count[key], bound)
		}
		c.rep.Duplicates += count[key] - 1
	}
}
