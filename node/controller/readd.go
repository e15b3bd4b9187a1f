package controller

import (
	"cmp"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"lockstep/internal/ha"
	"lockstep/node"
)

// A controller that lost its store comes back as a new member (P17): the leader
// replaces the old member number by a new one that first learns and then votes. The
// old number, which may have voted and acknowledged, never speaks again.

// lifeStep lies between the member numbers of two lives of one controller.
const lifeStep = 1 << 16

// numberOf is the configured number of a raft id, whatever life it is: "n0" is 1.
func numberOf(id uint64) ha.BrokerID { return ha.BrokerID(id % lifeStep) }

// settleControllers proposes the next change of the controllers' membership, one at
// a time: replace a member that lost its store, or give a vote to one that has
// caught up. It reports whether it proposed.
func (c *Controller) settleControllers(now node.Now) bool {
	if now.Mono < c.lead.changeAt || len(c.conf.GetVotersOutgoing()) > 0 {
		return false
	}
	cc := c.promotion()
	if cc == nil {
		cc = c.replacement(now.Mono)
	}
	if cc == nil {
		return false
	}
	c.lead.changeAt = now.Mono.Add(c.o.RequestTimeout)
	return c.rn.ProposeConfChange(cc) == nil // refused: tried again later
}

// promotion gives a vote to a learner that holds everything applied here.
func (c *Controller) promotion() *pb.ConfChangeV2 {
	if len(c.conf.GetLearners()) == 0 {
		return nil
	}
	progress := c.rn.Status().Progress
	for _, id := range c.conf.GetLearners() {
		if p, ok := progress[id]; ok && p.RecentActive && p.Match >= c.applied {
			return &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{change(pb.ConfChangeAddNode, id)}}
		}
	}
	return nil
}

// replacement swaps the member number of a peer that asks to be taken in anew. While
// the member that is to be replaced still takes part, somebody else uses its id.
func (c *Controller) replacement(now node.Time) *pb.ConfChangeV2 {
	for _, p := range c.peers {
		old, ok := c.state.voterOf(p.Node)
		if p.rejoin == "" || !ok || old.Store == p.rejoin || now < max(p.spokeAt, c.lead.since).Add(2*c.o.electionTimeout()) {
			continue
		}
		next := Voter{old.RaftID + lifeStep, p.Node, p.rejoin}
		var w writer
		w.uint(next.RaftID)
		w.text(next.Node)
		w.text(string(next.Store))
		return &pb.ConfChangeV2{Context: w.b, Changes: []*pb.ConfChangeSingle{
			change(pb.ConfChangeRemoveNode, old.RaftID), change(pb.ConfChangeAddLearnerNode, next.RaftID),
		}}
	}
	return nil
}

func change(kind pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)}
}

// admitController records the new life of a controller that a membership change
// carries.
func (s *State) admitController(context []byte) error {
	if len(context) == 0 {
		return nil
	}
	r := newReader(context)
	v := Voter{r.uint(), r.text(), ha.StoreID(r.text())}
	if err := r.end("controller life"); err != nil {
		return err
	}
	if _, ok := s.voterOf(v.Node); !ok {
		return fmt.Errorf("controller %s is no member", v.Node)
	}
	s.Voters = slices.DeleteFunc(s.Voters, func(x Voter) bool { return x.Node == v.Node })
	at, _ := slices.BinarySearchFunc(s.Voters, v.RaftID, func(x Voter, id uint64) int { return cmp.Compare(x.RaftID, id) })
	s.Voters = slices.Insert(s.Voters, at, v)
	return nil
}
