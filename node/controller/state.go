package controller

import (
	"cmp"
	"fmt"
	"slices"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
)

// Key names a broker group: two clusters may use one group name (HA contracts
// section 10, weakness 24).
type Key struct{ Cluster, Group string }

// String prints cluster/group.
func (k Key) String() string { return k.Cluster + "/" + k.Group }

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Group, b.Group))
}

// Member is what is committed about one broker of a group.
type Member struct {
	ID        ha.BrokerID
	Addr      string // host:port clients and controllers use
	HAAddr    string // host:port of its replication listener
	CheckCode string // proves a repeated application for the id to be the same one

	// Registered: the fields below are from a registration; an id applied for and never
	// registered has none.
	Registered bool
	Store      ha.StoreID // "" is a peer without incarnations (Java)
	Boot       ha.Boot
	Nonce      uint64 // of that boot; tells a clone or a rolled-back store (P18)
	// BootFloor is the highest boot seen of Store. A life with a boot at or below it,
	// other than the registered one, repeats a name that was used: it may be in no
	// set until its boot is above (P1, P2).
	BootFloor ha.Boot
	Reused    bool // the registered boot repeats one that was used before
	Claim     ha.Claim
	Class     ha.AckClass
	Learner   bool
	Replicas  int32 // configured size of the group
	MinInSync int32 // configured floor; the committed one is Record.MinInSync
	LastEpoch ha.MasterEpoch
	End       ha.LogOffset // durable end at registration
	Highest   ha.MasterEpoch
	Priority  int32

	// Electable: while a member of the set or retained, this life may be elected. It
	// ends in the command that registers another store, a boot that does not rise or
	// a broken claim, and begins when an alter names this life (P1, P2).
	Electable bool
	// Why says why it is not electable, for answers and operators.
	Why string
	// SetStore is the store that was in the set last: the all-back rule accepts only
	// the same store (P16).
	SetStore ha.StoreID
}

// Incarnation is the registered life of the member.
func (m *Member) Incarnation() ha.Incarnation {
	return ha.Incarnation{Broker: m.ID, Store: m.Store, Boot: m.Boot}
}

// Record is the committed record of one broker group. Its visible part (Master,
// Epoch, SetEpoch, Set) changes by an election or an alter and in no other way.
type Record struct {
	Key
	NextID  ha.BrokerID // what 1012 proposes: highest id + 1
	Members []Member    // ascending by id

	Master    ha.BrokerID // NoBroker before the first election
	MasterAt  ha.Incarnation
	Epoch     ha.MasterEpoch // never goes down, also across clean and re-creation
	SetEpoch  ha.SetEpoch    // never goes down
	Set       ha.IDs
	Retained  ha.IDs // members removed while the set was below MinInSync (P6); not all need be Electable
	MinInSync int32
	Floor     ha.LogOffset // confirm offset of the last alter: no clean candidate may end below (P1)
	// Highest is the highest epoch any broker ever reported; the next one exceeds it.
	Highest ha.MasterEpoch
	// Lost: the master's life is over although nobody else is elected yet: it came back
	// as a new boot, which must not go on in the old epoch (P4).
	Lost bool
	// Unclean: the current epoch began without proof that its log holds everything
	// acknowledged (unclean election or all-back).
	Unclean bool
	// Gated: when the current epoch was committed the previous authority's lease had
	// surely ended, so its lease may be granted at once by any later leader.
	Gated bool
}

// Elected reports whether the group ever had a master.
func (r *Record) Elected() bool { return len(r.Set) > 0 }

// member returns the member with the id, or nil.
func (r *Record) member(id ha.BrokerID) *Member {
	i, ok := slices.BinarySearchFunc(r.Members, id, func(m Member, id ha.BrokerID) int { return cmp.Compare(m.ID, id) })
	if !ok {
		return nil
	}
	return &r.Members[i]
}

// history is every member that may hold what was acknowledged.
func (r *Record) history() ha.IDs { return r.Set.Union(r.Retained) }

// replicas is the configured size of the group: the largest any member reports.
func (r *Record) replicas() int {
	n := int32(0)
	for i := range r.Members {
		n = max(n, r.Members[i].Replicas)
	}
	return int(n)
}

// registered counts the registered members that may lead.
func (r *Record) registered() (n int) {
	for i := range r.Members {
		if r.Members[i].Registered && !r.Members[i].Learner {
			n++
		}
	}
	return n
}

// electableRetained are the retained members that may be elected.
func (r *Record) electableRetained() ha.IDs {
	var out ha.IDs
	for _, id := range r.Retained {
		if m := r.member(id); m != nil && m.Electable {
			out = append(out, id)
		}
	}
	return out
}

// nextEpoch is the epoch of the next election: above everything committed and
// everything reported, so that epochs never go down even after a controller lost
// its data (P17).
func (r *Record) nextEpoch(reported ha.MasterEpoch) ha.MasterEpoch {
	return max(r.Epoch, r.Highest, reported) + 1
}

// maxEpochJump bounds how far a report may lie above the committed epoch; a liar
// would otherwise use up the 31 bits of epochs with one report.
const maxEpochJump = 1 << 20

// believable reports whether a reported epoch is within the bounded jump.
func (r *Record) believable(reported ha.MasterEpoch) bool {
	return int64(reported) <= int64(max(r.Epoch, r.Highest))+maxEpochJump && reported < 1<<31-1-maxEpochJump
}

func (r *Record) clone() Record {
	c := *r
	c.Members = slices.Clone(r.Members)
	c.Set, c.Retained = slices.Clone(r.Set), slices.Clone(r.Retained)
	return c
}

// Tombstone keeps the epochs of a group that was cleaned, so that a group of the
// same name starts above them.
type Tombstone struct {
	Key
	Epoch    ha.MasterEpoch
	SetEpoch ha.SetEpoch
}

// Voter is a controller as the cluster knows it. Its store is part of its identity: a
// controller that comes back without its store is somebody else and has no vote
// until it is added again (P17).
type Voter struct {
	RaftID uint64
	Node   string // configured id, for example "n0"
	Store  ha.StoreID
}

// State is the replicated state of the controllers: a pure function of the
// commands applied. It is never read with a clock.
type State struct {
	Cluster string  // drawn when the cluster was initialised
	Voters  []Voter // ascending by RaftID
	Groups  []Record
	Tombs   []Tombstone
	// Registers are ascending by name.
	Registers []Register
}

func (s *State) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(s.Groups, k, func(r Record, k Key) int { return compareKeys(r.Key, k) })
}

// group returns the record of k, or nil.
func (s *State) group(k Key) *Record {
	i, ok := s.find(k)
	if !ok {
		return nil
	}
	return &s.Groups[i]
}

// resolve completes a key whose cluster a request left out (Java sends the group
// alone): the only group of that name.
func (s *State) resolve(k Key) (Key, error) {
	if k.Cluster != "" {
		return k, nil
	}
	n := 0
	for i := range s.Groups {
		if s.Groups[i].Group == k.Group {
			k.Cluster = s.Groups[i].Cluster
			n++
		}
	}
	if n > 1 {
		return k, fmt.Errorf("broker group %q exists in %d clusters: name the cluster", k.Group, n)
	}
	return k, nil
}

// create makes the record of a new group, above the epochs of a cleaned one.
func (s *State) create(k Key) *Record {
	r := Record{Key: k, NextID: 1, Master: ha.NoBroker}
	for _, t := range s.Tombs {
		if t.Key == k {
			r.Epoch, r.SetEpoch = t.Epoch, t.SetEpoch
		}
	}
	i, found := s.find(k)
	invariant.That(!found, "group %s created twice", k)
	s.Groups = slices.Insert(s.Groups, i, r)
	return &s.Groups[i]
}

// voter returns the voter with the raft id.
func (s *State) voter(id uint64) (Voter, bool) {
	for _, v := range s.Voters {
		if v.RaftID == id {
			return v, true
		}
	}
	return Voter{}, false
}

// voterOf returns the voter of the configured node.
func (s *State) voterOf(node string) (Voter, bool) {
	for _, v := range s.Voters {
		if v.Node == node {
			return v, true
		}
	}
	return Voter{}, false
}

// flaw says which rule of every record does not hold, or "".
func (r *Record) flaw() string {
	switch {
	case r.Epoch < 0 || r.SetEpoch < 0 || r.Floor < 0:
		return "negative epoch or floor"
	case r.Elected() && !r.Set.Has(r.Master):
		return fmt.Sprintf("master %d is not in its set %v", r.Master, r.Set)
	case r.Elected() != (r.Master >= 0):
		return "a set without a master or the reverse"
	case int32(len(r.Set)) >= r.MinInSync && len(r.Retained) > 0:
		return "members are retained although the set suffices"
	}
	for _, id := range r.history() {
		if r.member(id) == nil {
			return fmt.Sprintf("member %d of the set is unknown", id)
		}
	}
	for _, id := range r.Retained {
		if r.Set.Has(id) {
			return fmt.Sprintf("%d is retained and in the set", id)
		}
	}
	return ""
}

// check asserts what must hold of every record after every command.
func (r *Record) check() {
	flaw := r.flaw()
	invariant.That(flaw == "", "%s: %s", r.Key, flaw)
}
