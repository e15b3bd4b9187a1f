package mutants

// When a write counts as acknowledged.

var _ = add(
	Mutant{
		Name: "ack-of-a-non-member-counted", Rule: "P13",
		Why:  "acknowledgements of replicas outside the committed set satisfy the policy. Two places keep them out: which sessions vote, and among whom the decision counts",
		File: "node/broker/syncset.go",
		Old:  "	return !r.learner && b.set.effective.Has(r.self.Broker)\n", New: "	return !r.learner\n",
		Edits: []Edit{{"node/broker/decide.go",
			"	among := o.Counted\n	if o.Policy.Kind == AllInSyncSet {\n		among = o.Set\n	}\n",
			"	among := ha.IDs(nil)\n	for i := range o.Acks {\n		among = among.With(o.Acks[i].Broker)\n	}\n"}},
		Drills: []string{"M-non-member"},
	},
	Mutant{
		Name: "one-replica-counted-twice", Rule: "13.9.1 write quorum",
		Why:    "a durable acknowledgement counts as a received one too, so one slave makes two: an isolated master with one slave satisfies what three were asked for",
		File:   "node/broker/decide.go",
		Old:    "remote, durable = remote+r, durable+d",
		New:    "remote, durable = remote+r+d, durable+d",
		Drills: []string{"A1", "A3"},
	},
	Mutant{
		Name: "ack-beyond-what-was-sent", Rule: "P8",
		Why:    "an acknowledgement above everything the session verified or was sent is believed: a slave that does not speak the truth completes the quorum",
		File:   "node/broker/master.go",
		Old:    "	case h.Offset > max(r.verified, r.sent):\n		b.rejectFrame(r, fmt.Sprintf(\"acknowledgement of %d, sent were %d\", h.Offset, max(r.verified, r.sent)))\n		return\n",
		New:    "",
		Drills: []string{"M-forged-ack"},
	},
	Mutant{
		Name: "ack-before-fsync", Rule: "DESIGN 5",
		Why:    "a slave acknowledges durably what is only written: a power loss takes it",
		File:   "node/broker/slave.go",
		Old:    "	end := b.log.durable\n	if b.o.AckClass == ha.ClassReceived",
		New:    "	end := b.log.written\n	if b.o.AckClass == ha.ClassReceived",
		Drills: []string{"A3", "A1"},
	},
	Mutant{
		Name: "master-before-fsync", Rule: "DESIGN 5",
		Why:    "under SYNC_FLUSH the master's own watermark is what it has written, not what is durable",
		File:   "node/broker/appender.go",
		Old:    "	return b.log.durable, ha.ClassDurable\n",
		New:    "	return b.log.written, ha.ClassDurable\n",
		Drills: []string{"A3", "A1"},
	},
	Mutant{
		Name: "old-set-only-during-a-change", Rule: "P3",
		Why:  "while a proposal is unresolved, or a slave is joining, only the committed set has to agree: the member that the commit lets in lacks what was acknowledged meanwhile",
		File: "node/broker/syncset.go",
		Old: `			s.effective = s.effective.Union(s.proposals[i].set)
			s.certain`,
		New: `			s.certain`,
		Edits: []Edit{{"node/broker/syncset.go", `			if r.joining.active {
				s.effective = s.effective.With(r.self.Broker)
			}
`, `			_ = r
`}},
		Drills: []string{"P-slow-commit-alter", "A1"},
	},
	Mutant{
		Name: "floor-checked-at-admission-only", Rule: "P6",
		Why:    "a write that was admitted with enough members is acknowledged after the set has shrunk below minInSyncReplicas",
		File:   "node/broker/decide.go",
		Old:    "	case o.Committed < o.MinInSync:\n		return BelowFloor\n",
		New:    "",
		Edits:  []Edit{{"node/broker/decide.go", "	if o.Least < o.MinInSync {\n		return Decision{Outcome: Wait, Reason: BelowFloor}\n	}\n", ""}},
		Drills: []string{"A1", "A4"},
	},
	Mutant{
		Name: "set-of-one-called-replicated", Rule: "DESIGN 5",
		Why:    "an acknowledgement that rests on the master's copy alone says Replicated",
		File:   "node/broker/decide.go",
		Old:    "		return o.proven(Local)\n",
		New:    "		return o.proven(Replicated)\n",
		Drills: []string{"A1", "A3"},
	},
	Mutant{
		Name: "serial-flush-then-replicate", Rule: "chapter 13.4",
		Why:  "bytes go to the slaves only when they are durable here: an acknowledgement costs the sum of flush and replication and not the larger of the two",
		File: "node/broker/transfer.go",
		Old:  "	for r.sent < b.log.end && int64(r.sent-r.acked)", New: "	for r.sent < b.log.durable && int64(r.sent-r.acked)",
		Edits:  []Edit{{"node/broker/transfer.go", "	_, stop, ok := b.epochs.At(r.sent, b.log.end)\n", "	_, stop, ok := b.epochs.At(r.sent, b.log.durable)\n"}},
		Drills: []string{"B12"},
	},
	Mutant{
		Name: "p6-freeze", Rule: "P6",
		Why:    "confirm moves while the committed set is below the floor: consumers read what a later clean election removes",
		File:   "node/broker/confirm.go",
		Old:    "	if frozen {\n		return\n	}\n	end, _ := b.local()\n",
		New:    "	end, _ := b.local()\n",
		Drills: []string{"P-last-standing"},
	},
	Mutant{
		Name: "commit-before-its-record", Rule: "M5",
		Why:    "a committed offset is answered when it is appended, not when its record is proven: a failover takes it back",
		File:   "node/broker/offsets.go",
		Old:    "		b.await(waiter{end: b.endOffset(), session: w.session, opaque: w.opaque, kind: waitCode, epoch: b.currentEpoch(), sealed: w.sealed})",
		New:    "		b.answer(now, waiter{end: b.endOffset(), session: w.session, opaque: w.opaque, kind: waitCode, epoch: b.currentEpoch(), sealed: w.sealed}, proven)",
		Drills: []string{"P-slow-commit-alter"},
	},
	Mutant{
		Name: "pull-beyond-confirm", Rule: "P6, P7",
		Why:    "consumers read whatever the log holds, also what no quorum holds and a failover cuts",
		File:   "node/broker/queues.go",
		Old:    "		if e.end() > confirm {\n			return\n		}\n		p.q.seen",
		New:    "		if e.end() > confirm+1<<50 {\n			return\n		}\n		p.q.seen",
		Drills: []string{"A3", "A5"},
	},
)
