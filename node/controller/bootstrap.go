package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/storage/raftstore"
)

// How a controller without state comes into a cluster (C4, C8, P17):
//
//   - Every store has an identity, drawn when it is created. The committed list of
//     voters names the store of each: a controller that lost its store is not the
//     voter it was, is refused by every member, and starts no raft.
//   - A cluster of one initialises itself.
//   - A cluster of several is initialised by the lowest configured id alone, only
//     when told to, and only while every configured controller is connected, empty,
//     and configured with the same ids. A peer that holds state, or that cannot be
//     asked, prevents it: it may be the one that remembers.
//   - Everybody else waits for a member that names its store among the voters.

// readd is what an operator does about a controller that lost its store.
const readd = "re-add it by starting it once with rejoinControllers=true; the others take it in as a new member"

// settleMembership moves an empty controller on.
func (c *Controller) settleMembership(now node.Now) {
	if c.phase != phaseEmpty {
		return
	}
	if c.tryJoin() {
		return
	}
	c.why = c.obstacle()
	if c.why == "" {
		c.initialise(now)
	}
}

// tryJoin accepts a membership that a member offers for this very store.
func (c *Controller) tryJoin() bool {
	for _, p := range c.peers {
		if p.welcome && p.heard.cluster != "" && p.heard.yours != 0 {
			c.phase = phaseSaving
			id := c.identity
			id.Cluster, id.RaftID = p.heard.cluster, p.heard.yours
			c.raftID = id.RaftID
			c.issue(&raftstore.Request{Kind: raftstore.KindJoin, Identity: id}, nil)
			return true
		}
	}
	return false
}

// obstacle says why this controller may not initialise the cluster now, or "".
func (c *Controller) obstacle() string {
	for _, p := range c.peers {
		switch {
		case p.refused.lost:
			return fmt.Sprintf("cluster %s knows this controller with another store: it lost its state and has no vote; %s", p.refused.cluster, readd)
		case p.refused.reason != "":
			return fmt.Sprintf("%s refuses this controller: %s", p.Node, p.refused.reason)
		case p.welcome && p.heard.cluster != "":
			return fmt.Sprintf("%s is a member of cluster %s, this controller is not: %s", p.Node, p.heard.cluster, readd)
		}
	}
	if len(c.peers) == 0 {
		return ""
	}
	lowest := c.o.lowest()
	if lowest != c.o.SelfID {
		return fmt.Sprintf("waiting for %s to initialise the cluster (initialiseControllers=true there)", lowest)
	}
	if !c.o.Initialise {
		return "not initialised: for a new cluster set initialiseControllers=true on " + lowest + "; if this cluster exists, this controller lost its store: " + readd
	}
	var missing []string
	for _, p := range c.peers {
		if !p.up || !p.welcome {
			missing = append(missing, p.Node)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("waiting for %s: a new cluster begins only while all its controllers are there, because one that cannot be asked may hold its state", strings.Join(missing, ", "))
	}
	for i, p := range c.peers {
		if slices.ContainsFunc(c.peers[:i], func(q *peer) bool { return q.heard.store == p.heard.store }) {
			return fmt.Sprintf("%s has a copy of another controller's store: give it one of its own", p.Node)
		}
	}
	return ""
}

// initialise makes the first state durable: a snapshot at index 1 whose membership
// is every configured controller with the store it has now.
func (c *Controller) initialise(now node.Now) {
	self, _ := raftID(c.o.SelfID)
	s := State{Voters: []Voter{{self, c.o.SelfID, c.identity.Store}}}
	for _, p := range c.peers {
		s.Voters = append(s.Voters, Voter{p.number, p.Node, p.heard.store})
	}
	slices.SortFunc(s.Voters, func(a, b Voter) int { return cmp.Compare(a.RaftID, b.RaftID) })
	h := prng.Hash(uint64(now.Wall), prng.HashString(c.o.ControllerGroup), prng.HashString(string(c.identity.Store)))
	s.Cluster = fmt.Sprintf("%016x", h)
	conf := raftstore.ConfState{}
	for _, v := range s.Voters {
		conf.Voters = append(conf.Voters, v.RaftID)
	}
	c.phase, c.raftID = phaseSaving, self
	c.issue(&raftstore.Request{
		Kind: raftstore.KindAppend, Hard: &raftstore.HardState{Term: 1, Commit: 1},
		Snapshot: &raftstore.Snapshot{Index: 1, Term: 1, Conf: conf, Data: s.encode()},
	}, nil)
}

// joined starts raft once the membership is durable.
func (c *Controller) joined(rec raftstore.Recovered) {
	invariant.That(c.phase == phaseSaving, "joined in phase %d", c.phase)
	if err := c.startRaft(rec); err != nil {
		c.leave(node.ExitFailed, err.Error())
		return
	}
	c.announceStart()
}
