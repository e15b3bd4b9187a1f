package mutants

// Who may write: fences, epochs, leases.

var _ = add(
	Mutant{
		Name: "start-fence-skipped", Rule: "13.9.1 start fence",
		Why:    "a broker that starts takes up the role that the last barrier in its log gave it, before it has heard from the controllers: a restarted master acknowledges alone",
		File:   "node/broker/broker.go",
		Old:    "\tb.noteStarted(r)\n\treturn b, nil\n",
		New:    "\tb.noteStarted(r)\n" + resumeRole + "\treturn b, nil\n",
		Drills: []string{"M-fast-restart", "A3"},
	},
	Mutant{
		Name: "equal-epoch-accepted", Rule: "13.9.1 rising epochs",
		Why:  "a record of the epoch in force with another master is taken up instead of ignored: a role moves without a new epoch",
		File: "node/broker/authority.go",
		Old: `		b.emit(event.Event{Kind: event.RequestRefused, Epoch: v.epoch, Broker: v.master,
			Text: fmt.Sprintf("epoch %d names master %d after master %d: ignored", v.epoch, v.master, old.master)})
		return
`,
		New: `		b.emit(event.Event{Kind: event.Mark, Broker: v.master, Text: "the epoch has another master"})
		b.loseRole(fmt.Sprintf("epoch %d has another master", v.epoch))
		b.role.epoch = 0 // so that the same epoch is taken up once more
`,
		Drills: []string{"M-equal-epoch"},
	},
	Mutant{
		Name: "lease-on-wall-clock", Rule: "P12",
		Why:  "the lease ends by the wall clock: a clock that is set back leaves a deposed master writable",
		File: "node/broker/lease.go",
		Old:  "	deadline   node.Time // 0: none\n", New: "	deadline   node.Time // 0: none\n	until, wall int64\n",
		Edits: []Edit{
			{"node/broker/lease.go", "l.deadline != 0 && now < l.deadline", "l.wall < l.until"},
			{"node/broker/lease.go", "	l.deadline = max(l.deadline, now.Add(left))\n", "	l.deadline, l.until = max(l.deadline, now.Add(left)), max(l.until, l.wall+left.Milliseconds())\n"},
			{"node/broker/lease.go", "func (l *lease) fence() { l.deadline = 0 }", "func (l *lease) fence() { l.deadline, l.until = 0, 0 }"},
			{"node/broker/lease.go", "if !b.lease.open || b.lease.deadline == 0 {", "if !b.lease.open || b.lease.deadline <= b.now.Mono {"},
			{"node/broker/broker.go", "	b.now = now\n}", "	b.now, b.lease.wall = now, now.Wall\n}"},
		},
		Drills: []string{"M-wall-step"},
	},
	Mutant{
		Name: "new-authority-granted-at-once", Rule: "P12",
		Why:    "an election does not wait for the old authority's lease, and the new one gets its lease at once: two masters are writable",
		File:   "node/controller/lease.go",
		Old:    "	end := max(c.lead.since.Add(c.o.LeaseDuration), w.until)\n	return now >= end, end\n",
		New:    "	return true, -node.Never\n",
		Drills: []string{"A5"},
	},
)

// resumeRole is the code of a broker that trusts its own log for its role.
const resumeRole = `	if rec, bad := storage.DecodeRecord(r.LastBarrier); bad == "" {
		if x, err := storage.DecodeBarrier(rec.Body); err == nil && x.Master == b.id.Broker {
			b.view = view{epoch: x.Epoch, setEpoch: 1, set: ha.NewIDs(x.Master), master: x.Master, heard: true}
			b.role = role{kind: roleMaster, phase: phaseServing, epoch: x.Epoch, start: x.Start, barrierEnd: r.End}
			b.startSet()
		}
	}
`
