// Package model is a random walk over the replication protocol at its smallest:
// three brokers, one atomic controller record, delayed and lost messages, false
// suspicion at any time, process crash, power loss and one wiped victim. Every
// closing rule of the protocol can be switched off; with all of them on nothing
// acknowledged or visible is ever lost, and without any one of them a walk finds
// the loss. It is the cheapest judge of a change to the protocol, and it has no
// clock and no lease: durability must not depend on time.
package model

import (
	"fmt"
	"math/bits"

	"lockstep/internal/prng"
)

// Brokers is the number of replicas in the model.
const Brokers = 3

// Rules are the protocol's closing rules. The zero value has none of them.
type Rules struct {
	Union         bool // acks are taken from the union of the committed and every proposed set (P3)
	UnionByEpoch  bool // the union ends only on a higher set epoch, not on a read of the same one (P3)
	MinAtAck      bool // minInSyncReplicas is checked at acknowledgement too (DESIGN 5)
	StoreID       bool // another store id makes a member not electable (P1)
	MemberBoot    bool // a proposal names each member's incarnation (P2)
	ProvenBoot    bool // and that incarnation passed the join test (P2)
	UncleanBroken bool // class received: an unclean restart breaks the claim (P1)
	NewEpoch      bool // a restarted master never continues its epoch (P4)
	Retained      bool // members removed while the set is below the floor stay electable (P6)
	Freeze        bool // confirm does not move while the set is below the floor (P6)
	JoinTest      bool // expand only at ack >= confirm, highest acknowledged and the barrier (P7, P14)
	RecoverySyncs bool // recovery fsyncs what it keeps (P5a)
	DropAcks      bool // a role change closes sessions and drops their acks (P13)
	ClassReceived bool // acks mean received, not durable
	MinInSync     int
}

// All returns every rule on, durable acks, floor 2.
func All() Rules {
	return Rules{Union: true, UnionByEpoch: true, MinAtAck: true, StoreID: true, MemberBoot: true, ProvenBoot: true,
		UncleanBroken: true, NewEpoch: true, Retained: true, Freeze: true, JoinTest: true, RecoverySyncs: true,
		DropAcks: true, MinInSync: 2}
}

type entry struct{ epoch, value int } // value < 0 is the epoch's barrier

type role uint8

const (
	none role = iota
	master
	slave
)

type set uint8

func (s set) has(i int) bool { return s>>i&1 == 1 }
func (s set) size() int      { return bits.OnesCount8(uint8(s)) }

type proposal struct{ members set }

type broker struct {
	up          bool
	store, boot int
	log         []entry
	durable     int // what it believes is durable
	platter     int // what is
	role        role
	epoch       int
	follows     int
	set         set
	setEpoch    int
	proposals   []proposal
	acks        [Brokers]int
	session     [Brokers]int // session of each slave on this master
	sessionBoot [Brokers]int // incarnation seen in that session's handshake
	memberBoot  [Brokers]int // incarnation that passed the join test
	confirm     int
	start       int // offset of its epoch's barrier
	mySession   int
}

type record struct {
	master, masterBoot, epoch int
	set, retained             set
	setEpoch                  int
	broken                    set
	store, boot               [Brokers]int
}

type kind uint8

const (
	alter kind = iota
	alterReply
	ack
	info
	register
)

type message struct {
	kind               kind
	from, to, boot     int
	epoch, setEpoch    int
	set                set
	boots              [Brokers]int
	ok, claim          bool
	off, session       int
	master, masterBoot int
	store              int
}

// Walk is one random walk.
type Walk struct {
	rnd      *prng.Source
	rules    Rules
	brokers  [Brokers]broker
	ctl      record
	inFlight []message
	values   int
	sessions int
	acked    map[int]bool
	visible  map[int]bool
	victim   int
	wipes    int
	weights  [numActions]int
	total    int
	Trace    []string
	Loss     string // what was lost, "" when nothing was
	Acks     int
	Elected  int
}

func (w *Walk) tracef(format string, args ...any) {
	w.Trace = append(w.Trace, fmt.Sprintf(format, args...))
}

// Run walks steps steps from the state after a good start: master 0, epoch 1,
// full set.
func Run(seed uint64, rules Rules, steps int) *Walk {
	w := &Walk{rnd: prng.New(seed), rules: rules, acked: map[int]bool{}, visible: map[int]bool{}}
	w.victim = w.rnd.Intn(Brokers)
	scale := []int{1, 1, 2, 4}
	div := []int{1, 1, 2, 8}
	for i := range actions {
		w.weights[i] = 1 + actions[i].weight*scale[w.rnd.Intn(4)]/div[w.rnd.Intn(4)]
		w.total += w.weights[i]
	}
	for i := range w.brokers {
		w.brokers[i] = broker{up: true, boot: 1, role: slave, epoch: 1}
		w.ctl.boot[i] = 1
	}
	w.ctl.masterBoot, w.ctl.epoch, w.ctl.set, w.ctl.setEpoch = 1, 1, 7, 3
	m := &w.brokers[0]
	m.role, m.set, m.setEpoch, m.log = master, 7, 3, []entry{{1, -1}}
	m.sessionBoot = [Brokers]int{1, 1, 1}
	m.memberBoot = m.sessionBoot
	for s := 0; s < steps && w.Loss == ""; s++ {
		w.step()
	}
	return w
}

func (w *Walk) step() {
	i, x, k := w.rnd.Intn(Brokers), w.rnd.Intn(w.total), 0
	for x >= w.weights[k] {
		x -= w.weights[k]
		k++
	}
	actions[k].do(w, i, &w.brokers[i])
	for m := range w.brokers {
		w.settle(m)
	}
}

// settle is the master's confirmation rule.
func (w *Walk) settle(m int) {
	b := &w.brokers[m]
	if !b.up || b.role != master {
		return
	}
	effective := b.set
	if w.rules.Union {
		for _, p := range b.proposals {
			effective |= p.members
		}
	}
	mark := b.durable
	if w.rules.ClassReceived {
		mark = len(b.log)
	}
	for j := range w.brokers {
		if j != m && effective.has(j) {
			mark = min(mark, b.acks[j])
		}
	}
	if !w.rules.MinAtAck || b.set.size() >= w.rules.MinInSync {
		w.acknowledge(m, b, mark)
	}
	if (!w.rules.Freeze || b.set.size() >= w.rules.MinInSync) && mark > b.confirm {
		b.confirm = mark
		for _, e := range b.log[:mark] {
			if e.value > 0 {
				w.visible[e.value] = true
			}
		}
	}
}

func (w *Walk) acknowledge(m int, b *broker, mark int) {
	for _, e := range b.log[:mark] {
		if e.value > 0 && e.epoch == b.epoch && !w.acked[e.value] {
			w.acked[e.value] = true
			w.Acks++
			w.tracef("acknowledge %d by %d epoch %d", e.value, m, b.epoch)
		}
	}
}

// checkLoss compares the log of a new master with every promise made.
func (w *Walk) checkLoss(i int) {
	have := map[int]bool{}
	for _, e := range w.brokers[i].log {
		have[e.value] = true
	}
	for v := 1; v <= w.values && w.Loss == ""; v++ {
		if w.acked[v] && !have[v] {
			w.Loss = fmt.Sprintf("acknowledged %d is lost at the promotion of %d", v, i)
		} else if w.visible[v] && !have[v] {
			w.Loss = fmt.Sprintf("visible %d is lost at the promotion of %d", v, i)
		}
	}
}

func lastEpoch(log []entry) int {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].epoch
}

// consistentPoint compares two logs by epoch intervals.
func consistentPoint(a, b []entry) int {
	for i := len(a) - 1; i >= 0; i-- {
		first := i
		for first > 0 && a[first-1].epoch == a[i].epoch {
			first--
		}
		if first < len(b) && b[first].epoch == a[i].epoch && (first == 0 || b[first-1].epoch != a[i].epoch) {
			end := first
			for end < len(b) && b[end].epoch == a[i].epoch {
				end++
			}
			return min(i+1, end)
		}
		i = first
	}
	return 0
}
