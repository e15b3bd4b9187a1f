package scenarios

import (
	"fmt"
	"slices"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/storage"
)

// downForGood says why a group can elect nobody by the rules any more, "" when it
// can: no member of its set and its retained members is electable, and one that would
// have to be back is on another disk than the one it was counted for (P16). Only an
// operator can decide then. To stay down, and to say for whom one waits, is what the
// protocol promises; whether it does is checked too.
func (r *Run) downForGood(g int) string {
	group := GroupName(g)
	rec := r.Truth.refresh(group)
	why := ""
	for i := range rec.Members {
		m := &rec.Members[i]
		if !rec.Set.Has(m.ID) && !rec.Retained.Has(m.ID) {
			continue
		}
		node := r.Truth.Node(group, m.ID)
		switch {
		case m.Electable && node != "" && m.Store == m.SetStore && r.sound(node):
			return ""
		case node == "" || m.Store != m.SetStore:
			why = fmt.Sprintf("broker %d of set %v and retained %v lost its store", m.ID, rec.Set, rec.Retained)
		}
	}
	if why == "" || !slices.ContainsFunc(r.Judge.Events, func(e event.Event) bool { return e.Kind == event.ElectionFailed && e.Group == group }) {
		return ""
	}
	return why
}

// sound reports whether no fault has ended the claim of a node's store.
func (r *Run) sound(node string) bool {
	b := r.brokerAt(node)
	if b == nil {
		return true // it may come back
	}
	for _, c := range b.Conditions() {
		if c.Name == "store" && !c.OK {
			return false
		}
	}
	return true
}

// anyDownForGood reports whether some group waits for an operator.
func (r *Run) anyDownForGood() bool {
	for g := range r.Setup.Groups {
		if r.downForGood(g) != "" {
			return true
		}
	}
	return false
}

// givenUp counts the groups that are not back and never will be by themselves.
func (r *Run) givenUp(back map[string]bool) int {
	n := 0
	for g, name := range r.Load.Groups {
		if !back[name] && r.downForGood(g) != "" {
			n++
			r.mark("down, and says why")
		}
	}
	return n
}

// fullest is the replica that an operator would go on with in a group that nobody
// leads, as the controllers choose: of those whose log ends in the newest epoch, the one
// whose queues reach furthest. What has expired at its beginning counts as held.
func (r *Run) fullest(group string) ha.BrokerID {
	best, newest, most := ha.NoBroker, ha.MasterEpoch(0), int64(-1)
	for i := range r.Setup.Replicas {
		id := r.Truth.ID(BrokerNode(groupIndex(group), i))
		if id <= 0 {
			continue
		}
		if epoch, n := r.reach(group, id); epoch > newest || epoch == newest && n > most {
			best, newest, most = id, epoch, n
		}
	}
	return best
}

// reach is the newest epoch of which a replica's log holds the barrier, 0 for none, and
// how many messages its queues have had.
func (r *Run) reach(group string, id ha.BrokerID) (epoch ha.MasterEpoch, messages int64) {
	next := map[int32]int64{}
	r.scanRecords(group, id, r.Truth.MinOffset(group, id), func(rec *checker.Record) {
		switch string(rec.Topic) {
		case Topic:
			next[rec.Queue] = max(next[rec.Queue], rec.QueueOffset+1)
		case storage.BarrierTopic:
			if b, err := storage.DecodeBarrier(rec.Body); err == nil {
				epoch = max(epoch, b.Epoch)
			}
		}
	})
	for _, n := range next {
		messages += n
	}
	return epoch, messages
}
