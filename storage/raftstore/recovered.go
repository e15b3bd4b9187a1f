package raftstore

import "fmt"

// reconcile makes one consistent state of the parts a store recovered. A crash
// may fall between the snapshot becoming durable and the log following it; then
// the log is behind or beside the snapshot, and the snapshot wins because it is
// committed. Anything a crash cannot explain is an error.
func reconcile(where string, r *Recovered) error {
	base := Snapshot{}
	if r.Snapshot != nil {
		base = *r.Snapshot
	}
	if len(r.Entries) > 0 && r.Entries[0].Index > base.Index+1 {
		return fmt.Errorf("%s: the log begins at %d but the snapshot ends at %d: entries between are missing; %s", where, r.Entries[0].Index, base.Index, remedy)
	}
	r.Entries = follow(r.Entries, base)
	last := r.LastIndex()
	if r.Hard.Commit > last {
		return fmt.Errorf("%s: entries up to %d were committed but the log ends at %d; %s", where, r.Hard.Commit, last, remedy)
	}
	r.Hard.Commit = max(r.Hard.Commit, base.Index)
	lastTerm := base.Term
	if n := len(r.Entries); n > 0 {
		lastTerm = r.Entries[n-1].Term
	}
	if r.Hard.Term < lastTerm {
		// The snapshot of a newer term became durable and the hard state of that term did
		// not: nothing was answered in that term yet, so no vote was given in it.
		r.Hard.Term, r.Hard.Vote = lastTerm, 0
	}
	return nil
}

// follow returns the entries behind base that belong to the same history.
func follow(es []Entry, base Snapshot) []Entry {
	for i, e := range es {
		switch {
		case e.Index == base.Index && e.Term != base.Term:
			return nil // another history: an installed snapshot replaced this log
		case e.Index == base.Index+1:
			return es[i:]
		}
	}
	return nil
}

// remedy is what an operator does about a store that cannot be trusted.
const remedy = "nothing was changed. Move this controller's store away, start it empty and re-add it to the cluster; never copy another controller's store"

// appendEntries returns the log with es at its place: the first of es cuts off
// everything at or above its index.
func appendEntries(log, es []Entry) []Entry {
	if len(es) == 0 {
		return log
	}
	keep := len(log)
	for keep > 0 && log[keep-1].Index >= es[0].Index {
		keep--
	}
	return append(log[:keep:keep], es...)
}
