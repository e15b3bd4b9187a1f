package mutants

// What the controllers decide: elections, sets, incarnations.

var _ = add(
	Mutant{
		Name: "elected-outside-the-set", Rule: "13.9.1 restricted election",
		Why:    "a live replica that is not in the SyncStateSet is elected: it lacks what was acknowledged since it left",
		File:   "node/controller/elect.go",
		Old:    "return rec.Set.Has(m.ID) && m.Electable && x.end >= rec.Floor",
		New:    "return m.Electable && x.end >= rec.Floor",
		Drills: []string{"M-outside-set"},
	},
	Mutant{
		Name: "new-set-keeps-old-members", Rule: "chapter 13.8",
		Why:    "the set of a new epoch keeps the members of the old one, which have not been aligned with the new master",
		File:   "node/controller/elect.go",
		Old:    "	rec.Set = ha.NewIDs(win.life.Broker)\n	rec.Retained = nil\n	if rec.MinInSync > 1 && ch.why != \"unclean\" {\n		rec.Retained = others\n	}\n",
		New:    "	rec.Set = others.With(win.life.Broker)\n	rec.Retained = nil\n",
		Drills: []string{"A3"},
	},
	Mutant{
		Name: "longer-log-wins", Rule: "chapter 13.9",
		Why:    "an election compares ends before epochs: a long branch of a deposed epoch beats the log that holds the newer one's messages. Among clean candidates any is right, so it shows in unclean elections alone",
		File:   "node/controller/elect.go",
		Old:    "cmp.Compare(y.lastEpoch, x.lastEpoch), cmp.Compare(y.end, x.end),",
		New:    "cmp.Compare(y.end, x.end), cmp.Compare(y.lastEpoch, x.lastEpoch),",
		Drills: []string{"M-longer-log"},
	},
	Mutant{
		Name: "p1-store-id", Rule: "P1",
		Why:    "a member that comes back with its identity and another store stays electable: it holds none of what it acknowledged",
		File:   "node/controller/registercmd.go",
		Old:    "	case m.Registered && m.Store != r.store:\n		return fmt.Sprintf(\"its store is another one than %s\", m.Incarnation())\n",
		New:    "",
		Drills: []string{"M-kept-identity"},
	},
	Mutant{
		Name: "p1-boot", Rule: "P1",
		Why:    "a boot number that was used before stays electable: a restored backup or a rolled-back machine",
		File:   "node/controller/registercmd.go",
		Old:    "	case c.reused(m):\n		return fmt.Sprintf(\"boot %d of its store was used before (up to %d): an older copy of the store\", r.boot, m.BootFloor)\n",
		New:    "",
		Drills: []string{"P-restored-backup"},
	},
	Mutant{
		Name: "p1-claim", Rule: "P1",
		Why:    "a member whose claim to hold what it acknowledged is broken stays electable",
		File:   "node/controller/registercmd.go",
		Old:    "	case r.claim == ha.ClaimBroken:\n		return \"it may have lost what it acknowledged\"\n",
		New:    "",
		Drills: []string{"M-broken-claim"},
	},
	Mutant{
		Name: "p1-floor", Rule: "P1",
		Why:  "a candidate whose log ends below the confirm offset of the last alter is elected: a store that lost its tail without noticing",
		File: "node/controller/elect.go",
		Old:  "return rec.Set.Has(m.ID) && m.Electable && x.end >= rec.Floor", New: "return rec.Set.Has(m.ID) && m.Electable",
		Edits: []Edit{
			{"node/controller/elect.go", "return rec.Retained.Has(m.ID) && m.Electable && x.end >= rec.Floor", "return rec.Retained.Has(m.ID) && m.Electable"},
			{"node/controller/registercmd.go", "case m.Registered && !c.same(m) && r.end < c.heard:", "case false && c.heard > 0:"}, // the other half
		},
		Drills: []string{"M-rolled-back-log"},
	},
	Mutant{
		Name: "p1-heard", Rule: "P1",
		Why:  "a store that comes back shorter than the controllers had heard of it stays electable: a backup of the running boot, put back, holds less than was acknowledged",
		File: "node/controller/registercmd.go",
		Old:  "case m.Registered && !c.same(m) && r.end < c.heard:", New: "case false && c.heard > 0:",
		Drills: []string{"P-restored-backup"},
	},
	Mutant{
		Name: "p2-incarnation", Rule: "P2",
		Why:  "an alter names ids and not lives: a member that lost its store between proposal and commit is let in and becomes electable",
		File: "node/controller/alter.go",
		Old: `		case m.Store != "" && !slices.Contains(c.members, m.Incarnation()):
			return refused(wire.CodeInvalidReplicas, "broker %d of %s is registered as %s; the request names another life or none", id, c.key, m.Incarnation())
`,
		New:    "",
		Drills: []string{"M-late-alter"},
	},
	Mutant{
		Name: "p6-retained", Rule: "P6",
		Why:  "members removed while the set is below the floor stop being electable: one more loss and nobody can lead, although they hold everything",
		File: "node/controller/elect.go",
		Old:  "		rec.Retained = others\n", New: "		rec.Retained = others[:0]\n",
		Edits:  []Edit{{"node/controller/alter.go", "		rec.Retained = removed\n", "		rec.Retained = removed[:0]\n"}},
		Drills: []string{"P-last-standing"},
	},
)
