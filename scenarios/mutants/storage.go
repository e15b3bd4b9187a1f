package mutants

// What a store makes durable, and what recovery believes.

var _ = add(
	Mutant{
		Name: "truncation-not-durable", Rule: "P10",
		Why:  "a cut leaves no mark and syncs nothing: a crash in the middle leaves some of the removed segments",
		File: "storage/cut.go",
		Old: `	if err := vfs.WriteAtomic(c.fsys, nameCut, encodeCut(off)); err != nil {
		return fmt.Errorf("write %s: %w", nameCut, mapDisk(err))
	}
	return c.finish(off)
`,
		New: "	return c.finish(off)\n",
		Edits: []Edit{
			{"storage/commitlog.go", "	if err := l.cutSegment(off); err != nil {\n		return err\n	}\n	if err := l.fsys.SyncDir(dirCommitLog); err != nil {\n		return l.fail(fmt.Errorf(\"sync %s: %w\", dirCommitLog, err))\n	}\n	return nil\n", "	return l.cutSegment(off)\n"},
			{"storage/commitlog.go", "		if err = seg.file.Allocate(l.size); err == nil {\n			err = seg.file.Sync()\n		}\n", "		err = seg.file.Allocate(l.size)\n"},
		},
		Drills: []string{"M-cut-crash"},
	},
	Mutant{
		Name: "queue-table-not-rebuilt", Rule: "P7, M1",
		Why:    "recovery does not dispatch the records that the queue files lack: the replica goes on with queues that begin where it came back, and hides what lies before when it leads",
		File:   "storage/apply.go",
		Old:    "if f.Kind == FoundRecord && at >= r.dispatched {",
		New:    "if f.Kind == FoundRecord && at >= r.tail.end {",
		Drills: []string{"M-fresh-reader"},
	},
	Mutant{
		Name: "p5-cache-drop", Rule: "P5",
		Why:  "recovery reads what the page cache holds and only syncs it: pages that a failed sync left clean are believed and never reach the device. Dropping the cache and rewriting back each other up, so both go",
		File: "storage/recovery.go",
		Old:  "	if !r.clean {\n		if err := r.dropCaches(); err != nil {\n			return err\n		}\n	}\n", New: "",
		Edits: []Edit{{"storage/apply.go", "			if err := r.rewrite(f, at); err != nil {\n				return err\n			}\n",
			"			r.log.mu.Lock()\n			for _, s := range r.log.segs {\n				s.dirty = true\n			}\n			r.log.mu.Unlock()\n"}},
		Drills: []string{"M-killed-unsynced", "P-fsync-lie-restart"},
	},
	Mutant{
		Name: "p5-rewrite", Rule: "P5",
		Why:    "what recovery reads counts as durable although only the page cache may hold it: a kill, a restart and a power loss undo acknowledgements",
		File:   "storage/apply.go",
		Old:    "rewrite := !r.clean && r.tail.damage == nil",
		New:    "rewrite := false",
		Drills: []string{"M-killed-unsynced", "P-fsync-lie-restart"},
	},
	Mutant{
		Name: "p5-torn-tail", Rule: "P5",
		Why:    "every bad record is taken for a torn tail: recovery cuts acknowledged data behind a rotten byte",
		File:   "storage/tail.go",
		Old:    "		return t, t.judge(r, x)\n",
		New:    "		err = t.lookBehind(r, x.stop)\n		t.later, t.lost = -1, true\n		return t, err\n",
		Drills: []string{"P-rot-then-crash"},
	},
	Mutant{
		Name: "p9-epoch-file-believed", Rule: "P9",
		Why:    "the epoch list comes from the epoch file alone: a crash between an epoch's data and its file makes a member cut what it acknowledged",
		File:   "storage/store.go",
		Old:    "MergeEpochs(derived, cached, rec.End), newest",
		New:    "MergeEpochs(derived[:0], cached, rec.End), newest",
		Drills: []string{"M-epoch-file"},
	},
	Mutant{
		Name: "queue-entry-dropped", Rule: "P7, M1",
		Why:    "one queue entry in a hundred reaches the disk empty: what is read from the files, and not from memory, lacks messages",
		File:   "storage/queuewrite.go",
		Old:    "unit{log: log, size: e.Size, tag: e.Tag}.append(q.pending)",
		New:    "unit{log: log, size: e.Size * int32(min(1, e.Offset%101)), tag: e.Tag}.append(q.pending)",
		Drills: []string{"M-fresh-reader"},
	},
	Mutant{
		Name: "expired-early", Rule: "P19",
		Why:    "segments are removed at a tenth of their retention time: messages that consumers may still count on are gone",
		File:   "node/broker/retention.go",
		Old:    "b.now.Wall-stored < b.o.FileReservedTime.Milliseconds()",
		New:    "b.now.Wall-stored < b.o.FileReservedTime.Milliseconds()/10",
		Drills: []string{"P-expired-prefix-bootstrap", "R"},
	},
)
