package check

import "lockstep/chaos/maelstrom/history"

// session is what one process has read and sent, by key.
type session struct {
	last map[string]int       // highest rank polled since the key was assigned
	sent map[string]*placedOp // last send whose place is known
}

type placedOp struct {
	op     *history.Op
	offset int64
}

// sessions checks the order that each process sees. Operations of a process lie
// one behind the other in the history.
func (k *kafka) sessions() {
	by := map[int]*session{}
	for _, op := range k.ops {
		s := by[op.Process]
		if s == nil {
			s = &session{last: map[string]int{}, sent: map[string]*placedOp{}}
			by[op.Process] = s
		}
		switch op.F {
		case history.Assign:
			s.assign(op)
		case history.Send:
			k.send(s, op)
		case history.Poll:
			for _, key := range sortedKeys(op.Msgs) {
				k.poll(s, op, key)
			}
		}
	}
}

// assign forgets the positions of keys that are not held any more: a key that
// comes back starts anew.
func (s *session) assign(op *history.Op) {
	if op.Type != history.OK {
		return
	}
	kept := map[string]int{}
	for _, key := range op.Keys {
		if r, ok := s.last[key]; ok && !op.Seek {
			kept[key] = r
		}
	}
	s.last = kept
}

func (k *kafka) send(s *session, op *history.Op) {
	places := k.log(op.Key).places[op.Msg]
	if op.Type == history.Fail || len(places) == 0 {
		return
	}
	here := &placedOp{op, places[0]}
	if op.Type == history.OK {
		here.offset = op.Offset
	}
	if b := s.sent[op.Key]; b != nil && here.offset < b.offset {
		k.add(NonmonotonicSend, op, "key %s: %s landed at offset %d, below %d of the earlier %s", op.Key, name(op), here.offset, b.offset, name(b.op))
	}
	s.sent[op.Key] = here
}

// poll checks what one poll showed of one key, within itself and against what
// the process had read before.
func (k *kafka) poll(s *session, op *history.Op, key string) {
	l, pairs := k.log(key), op.Msgs[key]
	if len(pairs) == 0 {
		return
	}
	first := l.rank(pairs[0].Offset)
	if last, ok := s.last[key]; ok {
		switch {
		case first > last+1:
			k.add(PollSkip, op, "key %s: %s went from offset %d to %d over %s", key, name(op), l.offsets[last], pairs[0].Offset, l.between(last+1, first))
		case first <= last:
			k.add(NonmonotonicPoll, op, "key %s: %s went from offset %d back to %d", key, name(op), l.offsets[last], pairs[0].Offset)
		}
	} else if position, ok := op.Positions[key]; ok {
		k.start(op, key, position, pairs[0].Offset)
	}
	highest := first
	for i := 1; i < len(pairs); i++ {
		before, r := l.rank(pairs[i-1].Offset), l.rank(pairs[i].Offset)
		switch {
		case r > before+1:
			k.add(IntPollSkip, op, "key %s: %s answered offsets %d, %d over %s", key, name(op), pairs[i-1].Offset, pairs[i].Offset, l.between(before+1, r))
		case r <= before:
			k.add(IntNonmonotonicPoll, op, "key %s: %s answered offset %d after %d", key, name(op), pairs[i].Offset, pairs[i-1].Offset)
		}
		highest = max(highest, r)
	}
	if last, ok := s.last[key]; !ok || highest > last {
		s.last[key] = highest
	}
}

// start checks the first poll of a key since it was assigned.
func (k *kafka) start(op *history.Op, key string, position, first int64) {
	l := k.log(key)
	if first < position {
		k.add(StartBefore, op, "key %s: %s asked from offset %d and was answered %d", key, name(op), position, first)
		return
	}
	if from := l.rankFrom(position); l.rank(first) > from {
		k.add(StartSkip, op, "key %s: %s asked from offset %d and was answered from %d, over %s", key, name(op), position, first, l.between(from, l.rank(first)))
	}
}
