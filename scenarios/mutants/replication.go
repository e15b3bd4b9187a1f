package mutants

// How logs are aligned and replicas join.

var _ = add(
	Mutant{
		Name: "no-truncation-on-rejoin", Rule: "13.9.1 log alignment",
		Why:    "the consistent point is the shorter end and not the end of the last common epoch: a returning master keeps the branch that nobody else has",
		File:   "internal/ha/epochs.go",
		Old:    "return min(epochEnd(slave, i, slaveEnd), epochEnd(master, j, masterEnd)), true",
		New:    "return min(slaveEnd, masterEnd), true",
		Drills: []string{"A5", "A6"},
	},
	Mutant{
		Name: "expand-before-confirm", Rule: "P7, P14",
		Why:    "a slave is proposed for the set as soon as it is near, before it holds what was confirmed and acknowledged",
		File:   "node/broker/syncset.go",
		Old:    "j.passed = r.acked >= max(b.confirm, b.waiters.acknowledged, b.role.barrierEnd)",
		New:    "j.passed = true",
		Drills: []string{"A3", "A1"},
	},
	Mutant{
		Name: "epoch-entry-before-its-data", Rule: "P9",
		Why:  "a slave records the master's epochs at the handshake, before it holds a byte of them: after a crash its list says more than its log holds",
		File: "node/broker/slave.go",
		Old:  "	u.reported = u.point\n",
		New: `	u.reported = u.point
	for _, e := range u.welcome.Epochs {
		if e.Epoch > b.epochs.Last().Epoch {
			b.epochs = b.epochs.Append(e)
		}
	}
	b.saveEpochs()
`,
		Drills: []string{"A3", "P-last-standing"},
	},
	Mutant{
		Name: "serving-before-dispatch-caught-up", Rule: "P7, M1",
		Why:  "a new master's queue table ends at what it knew to be confirmed: the queue offsets of the tail are given out a second time",
		File: "node/broker/promotion.go",
		Old:  "		b.appendBarrier()\n		r.phase = phaseBarrier\n",
		New: `		for t := &b.queues; t.order.next > t.shown; {
			q := t.order.at(t.order.next - 1).q
			q.next, q.recent.next, t.order.next = q.next-1, q.recent.next-1, t.order.next-1
			t.sent, t.done = min(t.sent, t.order.next), min(t.done, t.order.next)
		}
		b.appendBarrier()
		r.phase = phaseBarrier
`,
		Drills: []string{"A3", "A5"},
	},
	Mutant{
		Name: "p3-read-ends-the-union", Rule: "P3",
		Why:    "a read of the same set epoch ends the unresolved proposals, although they may still commit: the member they let in lacks what was acknowledged since",
		File:   "node/broker/alter.go",
		Old:    "	if epoch <= s.epoch ||",
		New:    "	if epoch < s.epoch ||",
		Drills: []string{"P-slow-commit-alter"},
	},
	Mutant{
		Name: "p7-tail-cut-at-promotion", Rule: "P7",
		Why:    "a new master cuts its log to the confirm offset it knows of, which lags behind what was acknowledged",
		File:   "node/broker/promotion.go",
		Old:    "		if !b.log.quiet() {\n			return\n		}\n",
		New:    "		if !b.log.quiet() {\n			return\n		}\n		if b.confirm < b.log.end {\n			b.wantCut(b.confirm)\n			return\n		}\n",
		Drills: []string{"A3", "A5"},
	},
	Mutant{
		Name: "p8-prefix-not-counted", Rule: "P8",
		Why:  "only bytes sent on the session count as acknowledged, not the prefix that the handshake verified: on an idle group a slave that has everything never joins, so writes stay refused",
		File: "node/broker/syncset.go",
		Old:  "if r.phase == replicaStarted && b.votes(r) {", New: "if r.phase == replicaStarted && r.transfer.bytes > 0 && b.votes(r) {",
		Edits: []Edit{
			{"node/broker/syncset.go", "j.passed = r.acked >=", "j.passed = r.transfer.bytes > 0 && r.acked >="},
		},
		Drills: []string{"M-idle-return"},
	},
	Mutant{
		Name: "p13-sessions-kept", Rule: "P13",
		Why:    "a change of epoch leaves the replication sessions open: what was acknowledged in one epoch counts in the next",
		File:   "node/broker/role.go",
		Old:    "	b.closeReplicas(reason)\n",
		New:    "",
		Drills: []string{"A6", "A5"},
	},
)
