package checker

import (
	"bytes"
	"hash/maphash"

	"lockstep/internal/ha"
)

// Policy is what a group's acknowledgements promise (DESIGN 5).
type Policy struct {
	All   bool        // every member of the SyncStateSet
	Count int         // else: this many members including the master; 1 is the master alone
	Min   int         // minInSyncReplicas
	Class ha.AckClass // what a counted copy must be: durable, or received
	// Reserved is the age, nanoseconds, from which retention may remove a message; 0:
	// never in this run. What is gone sooner is lost, whoever deleted it.
	Reserved int64
}

// Truth is the world as it is: the true disks and the committed controller
// record, never what the product says of itself.
type Truth interface {
	// Cached returns n bytes at off of the broker's commit log as its operating
	// system would read them now; nil when they are not all there.
	Cached(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte
	// Durable is the same of the platter: what a power loss now would leave.
	Durable(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte
	// MinOffset is the start of the broker's oldest segment.
	MinOffset(group string, b ha.BrokerID) ha.LogOffset
	// Set is the newest committed SyncStateSet of the epoch; Newest is the epoch in
	// force with its set.
	Set(group string, epoch ha.MasterEpoch) ha.IDs
	Newest(group string) (ha.MasterEpoch, ha.IDs)
	// Brokers are all replicas of the group; Electable those that are up and that
	// the committed record allows to be elected.
	Brokers(group string) ha.IDs
	Electable(group string) ha.IDs
}

// Ack is one SEND_OK at the instant it is emitted.
type Ack struct {
	Key         string
	Group       string
	Master      ha.BrokerID
	Epoch       ha.MasterEpoch
	Log         ha.LogOffset // from the message id of the answer
	QueueOffset int64
	Claim       string // what the answer says it proves, one of the claims below; "" when it does not say
	At          int64
}

// What a SEND_OK may say of itself: the master's copy alone, or copies on other
// replicas too, received or durable.
const (
	ClaimLocal      = "local"
	ClaimReceived   = "replicated-received"
	ClaimReplicated = "replicated"
)

// copyState is one replica's copy of a message since its acknowledgement.
type copyState struct {
	broker ha.BrokerID
	class  ha.AckClass
	died   string // the fault that took it, "" while none did
}

// message is one promise in the ledger.
type message struct {
	ack     Ack
	size    int
	hash    uint64
	raw     []byte // the record itself, while its acknowledgement is checked
	copies  []copyState
	first   [3]copyState // backing of copies in the usual group
	lost    bool
	allowed bool
	expired bool
	seen    bool // promised to a consumer that read it, not to its producer
}

// promise names one acknowledgement: retries of one logical send may be
// acknowledged more than once, each at its own place, and each is kept.
type promise struct {
	key   string
	group string
	log   ha.LogOffset
}

// Ledger is the durability ledger (DESIGN 8): every SEND_OK is checked against
// the truth when it is emitted, and must be found again at every promotion and
// at the end unless the faults since then explain exactly this loss.
type Ledger struct {
	truth    Truth
	policy   map[string]Policy
	messages map[string][]*message // by group, in order of acknowledgement
	byPlace  map[promise]*message
	visible  map[promise]*message            // what consumers read before, or without, a SEND_OK
	reads    map[string][]*message           // the same by group, in order of reading
	heard    map[string]bool                 // keys of all SEND_OK
	lostKeys map[string]bool                 // keys of which an acknowledged copy is lost; true when all such losses are allowed
	promoted map[string]Promotion            // the newest of each group
	latent   map[replicaOf]map[*message]bool // rotten places in a store that nobody has read since
	damaged  map[replicaOf]bool              // replicas that a fault robbed after they were last proposed
	rotted   map[replicaOf]bool              // disks on which bytes have changed
	began    map[string]int64                // key → when its message may have been stored, where messages expire
	enough   map[term]ha.IDs                 // last set that sufficed for an acknowledgement
	out      []Finding
	Counts   Counts
}

// Counts is what the ledger measured.
type Counts struct {
	Acknowledged int
	Lost         int // all acknowledged messages that are gone
	LossAllowed  int // of those, explained by faults and policy
	LostBytes    int64
	Seen         int // messages that a consumer read and no producer was promised, at that time
	SeenLost     int // of those, gone
	Expired      int // left by retention
}

// NewLedger returns an empty ledger over the truth.
func NewLedger(t Truth) *Ledger {
	return &Ledger{truth: t, policy: map[string]Policy{}, messages: map[string][]*message{}, byPlace: map[promise]*message{}, visible: map[promise]*message{}, reads: map[string][]*message{}, heard: map[string]bool{}, lostKeys: map[string]bool{}, promoted: map[string]Promotion{}, damaged: map[replicaOf]bool{}, rotted: map[replicaOf]bool{}, began: map[string]int64{}, latent: map[replicaOf]map[*message]bool{}, enough: map[term]ha.IDs{}}
}

// SetPolicy says what a group promises; before its first acknowledgement.
func (l *Ledger) SetPolicy(group string, p Policy) { l.policy[group] = p }

// Findings returns the breaches so far, in the order they were found.
func (l *Ledger) Findings() []Finding { return l.out }

// LossAllowed reports whether an acknowledged copy of the key is lost and every
// such loss is allowed.
func (l *Ledger) LossAllowed(key string) bool { return l.lostKeys[key] }

func (l *Ledger) fail(name string, at int64, format string, args ...any) {
	l.out = append(l.out, finding("ledger", name, at, format, args...))
}

// hashSeed is of this process: hashes are compared with each other and never shown.
var hashSeed = maphash.MakeSeed()

func hashOf(b []byte) uint64 { return maphash.Bytes(hashSeed, b) }

// Acknowledged checks one SEND_OK at its emission and enters it.
func (l *Ledger) Acknowledged(a Ack) {
	l.Counts.Acknowledged++
	l.heard[a.Key] = true
	m := &message{ack: a}
	at := promise{a.Key, a.Group, a.Log}
	if old := l.byPlace[at]; old != nil && !old.lost {
		l.fail("acknowledged-twice", a.At, "%s is acknowledged a second time at %d", a.Key, a.Log)
		return
	}
	if !l.read(m) {
		return
	}
	if v := l.visible[at]; v != nil {
		v.expired = true // the stronger promise takes its place
	}
	l.byPlace[at] = m
	l.messages[a.Group] = append(l.messages[a.Group], m)
	l.gather(m)
	l.gatherPast(m)
	l.evidence(m)
	m.raw = nil
	if p, ok := l.promoted[a.Group]; ok && a.Epoch < p.Epoch {
		l.verify(m, p, l.truth.MinOffset(p.Group, p.Master)) // too late: the newer log decides at once
	}
}

// read takes the record from the acknowledging master's own log.
func (l *Ledger) read(m *message) bool {
	a := m.ack
	head := l.truth.Cached(a.Group, a.Master, a.Log, 91)
	if head == nil {
		l.fail("not-appended", a.At, "%s is acknowledged at %d, where broker %d holds nothing", a.Key, a.Log, a.Master)
		return false
	}
	m.size = int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	var raw []byte
	if m.size >= 91 && m.size <= 64<<20 {
		raw = l.truth.Cached(a.Group, a.Master, a.Log, m.size)
	}
	r, err := ParseRecord(raw)
	switch {
	case err != nil:
		l.fail("not-appended", a.At, "%s is acknowledged at %d of broker %d: %v", a.Key, a.Log, a.Master, err)
	case !r.keyed(a.Key) || r.Log != a.Log || r.QueueOffset != a.QueueOffset:
		l.fail("wrong-record", a.At, "%s is acknowledged at log %d queue offset %d, where broker %d holds %s (log %d, queue offset %d)",
			a.Key, a.Log, a.QueueOffset, a.Master, r.Key(), r.Log, r.QueueOffset)
	default:
		m.hash, m.raw = hashOf(raw), raw
		return true
	}
	return false
}

// gather notes who holds the message now, and how well.
func (l *Ledger) gather(m *message) {
	m.copies = m.first[:0]
	for _, b := range l.truth.Brokers(m.ack.Group) {
		c := l.classAt(m, b)
		if c < ha.ClassDurable && l.rotUnderWay(m, b) {
			m.copies = append(m.copies, copyState{broker: b, class: ha.ClassDurable, died: "rot"})
			continue
		}
		if c != ha.ClassUnknown {
			m.copies = append(m.copies, copyState{broker: b, class: c})
		}
	}
}

func (l *Ledger) classAt(m *message, b ha.BrokerID) ha.AckClass {
	a := &m.ack
	if raw := l.truth.Durable(a.Group, b, a.Log, m.size); raw != nil && m.same(raw) {
		return ha.ClassDurable
	}
	if raw := l.truth.Cached(a.Group, b, a.Log, m.size); raw != nil && m.same(raw) {
		return ha.ClassReceived
	}
	return ha.ClassUnknown
}

// same reports whether a copy is the message's record.
func (m *message) same(copied []byte) bool {
	if m.raw != nil {
		return bytes.Equal(copied, m.raw)
	}
	return hashOf(copied) == m.hash
}

func (m *message) class(b ha.BrokerID) ha.AckClass {
	for _, c := range m.copies {
		if c.broker == b {
			return c.class
		}
	}
	return ha.ClassUnknown
}

// evidence demands what the policy promised, at this instant.
func (l *Ledger) evidence(m *message) {
	a, p := m.ack, l.policy[m.ack.Group]
	set := l.truth.Set(a.Group, a.Epoch)
	if !set.Has(a.Master) {
		l.fail("no-authority", a.At, "%s is acknowledged by broker %d in epoch %d, whose committed set is %v", a.Key, a.Master, a.Epoch, set)
		return
	}
	if m.class(a.Master) < p.Class {
		l.fail("before-durable", a.At, "%s is acknowledged while the master's own copy is only %v", a.Key, m.class(a.Master))
	}
	holders, all := m.holders(p, set)
	if p.All && !all {
		for _, b := range set {
			if b != a.Master && m.class(b) < p.Class {
				l.fail("member-lacks-it", a.At, "%s is acknowledged, member %d of set %v holds it %v (log %d)", a.Key, b, set, m.class(b), a.Log)
			}
		}
	}
	switch {
	case !l.tooFew(m, p, set): // the usual case
	case len(set) < p.Min:
		l.fail("below-min", a.At, "%s is acknowledged with set %v below minInSyncReplicas %d", a.Key, set, p.Min)
	default:
		l.fail("too-few-copies", a.At, "%s is acknowledged with %d copies, %d are promised", a.Key, holders, p.Count)
	}
	l.claimed(m, p, set)
	l.newestHolds(m, p)
}

// holders counts the members of a set that hold the message as well as promised,
// the master included, and says whether all do.
func (m *message) holders(p Policy, set ha.IDs) (n int, all bool) {
	for _, b := range set {
		if b == m.ack.Master || m.class(b) >= p.Class {
			n++
		}
	}
	return n, n == len(set)
}

// sufficient reports whether the set satisfies floor and count.
func (m *message) sufficient(p Policy, set ha.IDs) bool {
	n, all := m.holders(p, set)
	return len(set) >= p.Min && (p.All && all || !p.All && n >= p.Count)
}

// term names a master's time in office.
type term struct {
	group string
	epoch ha.MasterEpoch
}

// tooFew reports that the newest committed set does not satisfy floor and
// count, nor does the last one of the epoch that did when something was
// acknowledged. A master cannot know of a shrink before its answer has come, or when
// the answer is lost; until then the set it knows has to hold the message.
func (l *Ledger) tooFew(m *message, p Policy, set ha.IDs) bool {
	t := term{m.ack.Group, m.ack.Epoch}
	if n, _ := m.holders(p, set); len(set) >= p.Min && (p.All || n >= p.Count) {
		l.enough[t] = set
		return false
	}
	old := l.enough[t]
	return old == nil || !m.sufficient(p, old)
}

// claimed compares what the SEND_OK says of itself with the copies there are. More
// copies than claimed are fine; a set of one proves the master's alone.
func (l *Ledger) claimed(m *message, p Policy, set ha.IDs) {
	var class ha.AckClass
	switch m.ack.Claim {
	case "", ClaimLocal:
		return
	case ClaimReceived:
		class = ha.ClassReceived
	case ClaimReplicated:
		class = ha.ClassDurable
	default:
		l.fail("durability-unknown", m.ack.At, "%s is acknowledged as %q", m.ack.Key, m.ack.Claim)
		return
	}
	copies, short := 0, m.class(m.ack.Master) < class
	for _, c := range m.copies {
		if c.class >= class {
			copies++
		}
	}
	need := 2
	if !p.All {
		need = max(need, p.Count)
	}
	for _, b := range set {
		short = short || p.All && m.class(b) < class
	}
	if short || copies < need {
		l.fail("durability-overclaimed", m.ack.At, "%s is acknowledged as %s: %d copies are %v, set %v, %d are needed", m.ack.Key, m.ack.Claim, copies, class, set, need)
	}
}

// newestHolds: a deposed master may still succeed only with messages that the
// epoch in force kept (all-in-sync promises that; fewer copies do not).
func (l *Ledger) newestHolds(m *message, p Policy) {
	epoch, set := l.truth.Newest(m.ack.Group)
	if !p.All || epoch == m.ack.Epoch {
		return
	}
	for _, b := range set {
		if m.class(b) == ha.ClassUnknown {
			l.fail("deposed-ack", m.ack.At, "%s is acknowledged in epoch %d while epoch %d is in force and its member %d lacks it",
				m.ack.Key, m.ack.Epoch, epoch, b)
		}
	}
}
