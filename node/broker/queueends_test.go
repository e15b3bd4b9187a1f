package broker

import (
	"testing"

	"lockstep/storage"
)

// A replica whose log begins behind a queue's last record counts on from where the
// queue had got to; a queue that holds records is left alone.
func TestQueueEndsSurviveExpiry(t *testing.T) {
	var master queueTable
	master.reset([]storage.QueueBounds{
		{Topic: "idle", Queue: 3, Min: 40, Max: 40, Visible: 40},
		{Topic: "busy", Queue: 0, Min: 10, Max: 70, Visible: 70},
		{Topic: "empty", Queue: 1},
	}, 1000)
	st := newMetaState()
	for _, body := range checkpointOf(append(st.dump(), master.ends()...), 1, 120) {
		if err := st.apply(body, 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	if len(st.ends) != 2 {
		t.Fatalf("the checkpoint names %d queues, want the two that ever held a record: %v", len(st.ends), st.ends)
	}
	var rebuilt queueTable
	rebuilt.reset([]storage.QueueBounds{{Topic: "busy", Queue: 0, Min: 60, Max: 65, Visible: 65}}, 900)
	rebuilt.begin(st.ends)
	for _, want := range []struct {
		topic string
		id    int32
		min   int64
		next  int64
	}{{"idle", 3, 40, 40}, {"busy", 0, 60, 65}} {
		q := rebuilt.table[queueKey{want.topic, want.id}]
		if q == nil || q.min != want.min || q.next != want.next || q.seen < q.min {
			t.Errorf("queue %s/%d is %+v, want [%d, %d)", want.topic, want.id, q, want.min, want.next)
		}
	}
	rebuilt.check(900)
}
