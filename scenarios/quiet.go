package scenarios

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/checker"
	"lockstep/internal/ha"
	"lockstep/node/broker"
)

// core draws what the healed phase repairs: a majority of controllers, for each
// group an electable replica and enough others to be writable, one name server at
// least, and all clients. The rest stays as broken as it is.
func (r *Run) core() []string {
	if r.repairs.Chance(1, 2) || r.Drill.Down {
		return slices.Clone(r.nodes)
	}
	out := append(names(r.Setup.Clients, ProducerNode), names(watchers, WatcherNode)...)
	out = append(out, r.some(names(r.Setup.Controllers, ControllerNode), r.Setup.Controllers/2+1)...)
	out = append(out, r.some(names(r.Setup.Namesrvs, NamesrvNode), 1)...)
	for g := range r.Setup.Groups {
		out = append(out, r.coreOf(g)...)
	}
	return out
}

// some draws at least n of the list.
func (r *Run) some(list []string, n int) []string {
	list = slices.Clone(list)
	for len(list) > n && r.repairs.Chance(1, 2) {
		i := r.repairs.Intn(len(list))
		list = slices.Delete(list, i, i+1)
	}
	return list
}

// coreOf chooses by the committed record: without an electable life every replica
// is needed (P16), otherwise one that may lead and enough others for the floor.
func (r *Run) coreOf(g int) []string {
	all := r.resolveBroker([]string{"brokers", string(rune('a' + g))})
	rec := r.Truth.refresh(GroupName(g))
	lead := ""
	for i := range rec.Members {
		m := &rec.Members[i]
		if m.Electable && (rec.Set.Has(m.ID) || rec.Retained.Has(m.ID)) {
			if n := r.Truth.Node(GroupName(g), m.ID); n != "" && (lead == "" || r.repairs.Chance(1, 2)) {
				lead = n
			}
		}
	}
	if lead == "" || len(rec.Set) < len(all) && r.Setup.Min == 1 {
		return all
	}
	out := []string{lead}
	for _, n := range all {
		if n != lead && (len(out) < r.Setup.Min || r.repairs.Chance(1, 2)) {
			out = append(out, n)
		}
	}
	return out
}

// brokerAt is the running broker of a node, nil while it is down and for "", which
// is where a broker is whose disk was replaced.
func (r *Run) brokerAt(name string) *broker.Broker {
	if name == "" {
		return nil
	}
	b, _ := r.World.Machine(name).(*broker.Broker)
	return b
}

// unsettled says what keeps the core from being quiet: "" when every group's
// confirm offset is its end on all healed members, the watchers have read everything,
// and all have derived the same from their logs.
func (r *Run) unsettled() string {
	var why []string
	for g := range r.Setup.Groups {
		if s := r.unsettledGroup(g); s != "" {
			why = append(why, GroupName(g)+": "+s)
		}
	}
	return strings.Join(why, "; ")
}

func (r *Run) unsettledGroup(g int) string {
	if r.downForGood(g) != "" {
		return ""
	}
	rec := r.Truth.refresh(GroupName(g))
	node := r.Truth.Node(GroupName(g), rec.Master)
	m := r.brokerAt(node)
	if m == nil {
		return fmt.Sprintf("master %d is not up", rec.Master)
	}
	st := m.Status()
	if st.Confirm != st.End {
		return fmt.Sprintf("master %s: confirm %d, end %d, set %v", node, st.Confirm, st.End, st.Set)
	}
	for i := range r.Setup.Replicas {
		n := BrokerNode(g, i)
		if n == node || !slices.Contains(r.healed, n) {
			continue
		}
		b := r.brokerAt(n)
		if b == nil {
			return n + " is not up"
		}
		if s := b.Status(); s.Durable != st.End || s.Confirm != st.End {
			return fmt.Sprintf("%s: durable %d, confirm %d, master's end %d", n, s.Durable, s.Confirm, st.End)
		}
	}
	if s := r.behind(g); s != "" {
		return s
	}
	return r.underived(g)
}

// queueEnds is where the queues of a master's log end, as far as it was read.
type queueEnds struct {
	master ha.BrokerID
	life   int // lives seen when it was read: a new one may have cut the log
	off    ha.LogOffset
	next   map[string]int64
}

// behind compares the watchers' positions with the queues' ends. It is asked again
// and again, so each look reads only what is new.
func (r *Run) behind(g int) string {
	group := GroupName(g)
	master := r.Truth.refresh(group).Master
	e := r.ends[group]
	if e == nil || e.master != master || e.life != len(r.Judge.Lives) {
		e = &queueEnds{master: master, life: len(r.Judge.Lives), off: r.Truth.MinOffset(group, master), next: map[string]int64{}}
		if r.ends == nil {
			r.ends = map[string]*queueEnds{}
		}
		r.ends[group] = e
	}
	e.off = r.scanLog(group, master, e.off, func(rec *checker.Record) {
		e.next[r.Load.queueName(group, Topic, rec.Queue)] = rec.QueueOffset + 1
	})
	for _, q := range slices.Sorted(maps.Keys(e.next)) {
		if r.Load.watched[q] < e.next[q] {
			return fmt.Sprintf("watchers are at %d of %s, which ends at %d", r.Load.watched[q], q, e.next[q])
		}
	}
	return ""
}

// diverged compares the logs of the healed replicas byte for byte from the larger
// minimum offset; "" when they agree.
func (r *Run) diverged(g int) string {
	group := GroupName(g)
	rec := r.Truth.refresh(group)
	m := r.brokerAt(r.Truth.Node(group, rec.Master))
	if m == nil {
		return ""
	}
	end := m.Status().End
	for i := range r.Setup.Replicas {
		n := BrokerNode(g, i)
		id := r.Truth.ID(n)
		if id == rec.Master || !slices.Contains(r.healed, n) {
			continue
		}
		const step = 4096
		for off := max(r.Truth.MinOffset(group, id), r.Truth.MinOffset(group, rec.Master)); off < end; off += step {
			k := int(min(step, end-off))
			if theirs := r.pages(group, rec.Master, off, k); len(theirs) != k || !bytes.Equal(r.pages(group, id, off, k), theirs) {
				return fmt.Sprintf("%s differs from master %d within [%d, %d)", n, rec.Master, off, off+ha.LogOffset(k))
			}
		}
	}
	return ""
}

// pages reads bytes that may straddle a segment's end.
func (r *Run) pages(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	seg := ha.LogOffset(r.Setup.SegmentBytes)
	if left := int((off/seg+1)*seg - off); n > left {
		return append(bytes.Clone(r.Truth.Cached(group, b, off, left)), r.Truth.Cached(group, b, off+ha.LogOffset(left), n-left)...)
	}
	return r.Truth.Cached(group, b, off, n)
}

// whoIsDown describes the groups that do not serve, for liveness findings.
func (r *Run) whoIsDown() string {
	var why []string
	for g := range r.Setup.Groups {
		rec := r.Truth.refresh(GroupName(g))
		node := r.Truth.Node(GroupName(g), rec.Master)
		state := "down"
		if b := r.brokerAt(node); b != nil {
			st := b.Status()
			state = fmt.Sprintf("%v epoch %d set %v end %d confirm %d", st.Role, st.Epoch, st.Set, st.End, st.Confirm)
			for _, c := range b.Conditions() {
				if c.Writable && !c.OK {
					state += ", " + c.Name + ": " + c.Detail
				}
			}
		}
		why = append(why, fmt.Sprintf("%s master %d (%s) epoch %d set %v retained %v: %s", GroupName(g), rec.Master, node, rec.Epoch, rec.Set, rec.Retained, state))
	}
	return strings.Join(why, "; ")
}
