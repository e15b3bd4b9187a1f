package broker

import (
	"fmt"

	"lockstep/node"
	"lockstep/node/wire"
)

// queueLocks are the locks of ordered consumers (codes 41, 42), held in memory on
// the master. They are a courtesy between consumers: a new master starts without
// any and grants them again as clients renew, every 20 s.
type queueLocks struct {
	groups map[string]*groupLocks
	count  int
}

// groupLocks are the locks of one group.
type groupLocks struct {
	table map[queueKey]queueLock
	// until is when the last of them ends.
	until node.Time
}

type queueLock struct {
	client string
	until  node.Time
}

func newQueueLocks() queueLocks { return queueLocks{groups: map[string]*groupLocks{}} }

// holds reports whether a group has any lock that has not ended.
func (l *queueLocks) holds(now node.Now, group string) bool {
	g := l.groups[group]
	return g != nil && g.until > now.Mono
}

// lock takes or renews the lock of a queue for a client. It fails while another
// client's lock lives, or when the table is full.
func (l *queueLocks) lock(now node.Now, b *Broker, group string, k queueKey, client string) bool {
	g := l.groups[group]
	var held queueLock
	var known bool
	if g != nil {
		held, known = g.table[k]
	}
	if known && held.client != client && held.until > now.Mono {
		return false
	}
	if !known {
		if l.count >= b.o.MaxQueueLocks {
			l.sweep(now)
			g = l.groups[group]
		}
		if l.count >= b.o.MaxQueueLocks {
			return false
		}
		l.count++
	}
	if g == nil {
		g = &groupLocks{table: map[queueKey]queueLock{}}
		l.groups[group] = g
	}
	until := now.Mono.Add(b.o.RebalanceLockMaxLiveTime)
	g.table[k] = queueLock{client, until}
	g.until = until
	return true
}

// sweep drops locks that have ended; they only take room.
func (l *queueLocks) sweep(now node.Now) {
	for name, g := range l.groups { // tidy:unordered each lock is judged alone
		for k, lock := range g.table { // tidy:unordered each lock is judged alone
			if lock.until <= now.Mono {
				delete(g.table, k)
				l.count--
			}
		}
		if len(g.table) == 0 {
			delete(l.groups, name)
		}
	}
}

// unlock releases a queue if the client holds it.
func (l *queueLocks) unlock(group string, k queueKey, client string) {
	g := l.groups[group]
	if g == nil || g.table[k].client != client {
		return
	}
	delete(g.table, k)
	l.count--
	if len(g.table) == 0 {
		delete(l.groups, group)
	}
}

// lockBody reads and checks the body of 41 and 42.
func (b *Broker) lockBody(s node.SessionID, f *wire.Frame) (body wire.LockBatchRequest, ok bool) {
	if !b.body(s, f, &body) {
		return body, false
	}
	why := checkGroupName(body.ConsumerGroup)
	switch {
	case why != "":
	case body.ClientID == "" || len(body.ClientID) > maxClientID:
		why = fmt.Sprintf("clientId of %d bytes, want 1 to %d", len(body.ClientID), maxClientID)
	case len(body.Queues) > maxLockQueues:
		why = fmt.Sprintf("%d queues in one request, at most %d", len(body.Queues), maxLockQueues)
	}
	for _, q := range body.Queues {
		if why == "" && (q.QueueID < 0 || q.QueueID >= maxQueues || q.Topic == "" || len(q.Topic) > maxSystemTopicName) {
			why = fmt.Sprintf("queue %d of topic %s is no queue", q.QueueID, quoteShort(q.Topic))
		}
	}
	if why != "" {
		b.reject(s, f, wire.CodeInvalidParameter, why)
		return body, false
	}
	return body, true
}

// serveLock answers code 41 with the queues the client now holds.
func (b *Broker) serveLock(now node.Now, s node.SessionID, f *wire.Frame) {
	body, ok := b.lockBody(s, f)
	if !ok {
		return
	}
	if !b.isMaster() {
		b.reject(s, f, wire.CodeSystemError, "this broker is no master: queue locks are held there")
		return
	}
	out := wire.LockBatchResponse{Locked: []wire.MessageQueue{}}
	for _, q := range body.Queues {
		if b.locks.lock(now, b, body.ConsumerGroup, queueKey{q.Topic, q.QueueID}, body.ClientID) {
			out.Locked = append(out.Locked, q)
		}
	}
	b.replyBody(s, f, out)
}

// serveUnlock answers code 42.
func (b *Broker) serveUnlock(now node.Now, s node.SessionID, f *wire.Frame) {
	body, ok := b.lockBody(s, f)
	if !ok {
		return
	}
	for _, q := range body.Queues {
		b.locks.unlock(body.ConsumerGroup, queueKey{q.Topic, q.QueueID}, body.ClientID)
	}
	b.replyOK(s, f, nil)
}
