package check

import "lockstep/chaos/maelstrom/history"

// commit is one attempt to move a committed offset.
type commit struct {
	op         *history.Op
	offset     int64
	begin, end int // places; end is Never when it is unknown whether it happened
}

// commits checks every answer about committed offsets. Both usual meanings are
// legal: the last commit wins, or the highest.
func (k *kafka) commits(faults bool) {
	attempts := map[string][]commit{}
	for _, op := range k.ops {
		if op.F != history.Poll || op.CommitOK == history.Running || op.CommitOK == history.Fail {
			continue
		}
		for key, offset := range op.Commit {
			c := commit{op, offset, op.CommitAt, history.Never}
			if op.CommitOK == history.OK {
				c.end = op.End
			}
			attempts[key] = append(attempts[key], c)
		}
	}
	for _, op := range k.ops {
		if op.F != history.Assign || op.Committed == nil {
			continue
		}
		for _, key := range op.Keys {
			answer, ok := op.Committed[key]
			if !ok {
				answer = -1
			}
			k.committed(op, key, answer, attempts[key], faults && !op.Final)
		}
	}
}

// committed checks one answer; -1 means that the key was left out.
func (k *kafka) committed(op *history.Op, key string, answer int64, attempts []commit, excused bool) {
	// The answer is legal as long as the latest attempt that could have put it
	// there is not known to have been followed by a higher one.
	highest, until := int64(-1), -1
	from := answer == -1
	for _, c := range attempts {
		if c.begin > op.End {
			continue
		}
		highest = max(highest, c.offset)
		if c.offset == answer {
			from, until = true, max(until, c.end)
		}
	}
	switch {
	case answer > highest:
		k.add(CommittedAbove, op, "key %s: %s was told committed offset %d, the highest that anyone committed is %d", key, name(op), answer, highest)
		return
	case !from:
		k.add(CommittedUnknown, op, "key %s: %s was told committed offset %d, which nobody committed", key, name(op), answer)
		return
	}
	for _, c := range attempts {
		if c.begin <= until || c.end >= op.Begin || c.offset <= answer {
			continue
		}
		report := k.add
		what := LostCommit
		if excused {
			report, what = k.allow, StaleCommit
		}
		report(what, op, "key %s: %s was told %s, %s had committed %d before", key, name(op), committedText(answer), name(c.op), c.offset)
		return
	}
}

func committedText(offset int64) string {
	if offset < 0 {
		return "that nothing is committed"
	}
	return "committed offset " + itoa(offset)
}
