package broker

// Where queues end is a function of the whole log, but retention removes its
// beginning: a queue to which nobody has written since has no record left that
// shows how far it had counted. A replica that begins behind those records would
// start it at 0 and give offsets out a second time once it leads. So each metadata
// checkpoint names the end of every queue (M3).

// ends lists where each queue ends.
func (t *queueTable) ends() []metaEntry {
	out := make([]metaEntry, 0, len(t.all))
	for _, q := range t.all {
		if q.next > 0 && q.id >= 0 && q.id < maxQueues {
			out = append(out, metaEntry{kind: metaQueueEnd, name: q.topic, queue: q.id, offset: q.next})
		}
	}
	return out
}

// begin moves the empty queues of a log whose beginning has expired to where they
// ended. A queue that holds records knows better.
func (t *queueTable) begin(ends []metaEntry) {
	for i := range ends {
		e := &ends[i]
		q := t.open(e.name, e.queue)
		if q.min == q.next && q.next < e.offset {
			q.min, q.seen, q.next = e.offset, e.offset, e.offset
		}
	}
}
