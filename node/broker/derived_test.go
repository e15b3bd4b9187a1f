package broker

import (
	"slices"
	"testing"

	"lockstep/node/wire"
)

// TestDerivedIsSorted: equal tables give equal lines, whatever order they were
// filled in, and a difference in any table shows.
func TestDerivedIsSorted(t *testing.T) {
	build := func(names ...string) *Broker {
		b := new(Broker)
		b.meta = newMetaState()
		b.queues.table = map[queueKey]*queue{}
		for _, n := range names {
			b.meta.topics[n] = wire.TopicConfig{TopicName: n}
			b.meta.groups[n] = wire.SubscriptionGroupConfig{GroupName: n}
			b.meta.offsets[offsetKey{"g", n}] = []int64{noOffset, 7}
			b.queues.table[queueKey{n, 1}] = &queue{topic: n, id: 1, next: 9}
			b.queues.all = append(b.queues.all, b.queues.table[queueKey{n, 1}])
		}
		return b
	}
	one, other := build("A", "B", "C"), build("C", "A", "B")
	if !slices.Equal(one.Derived(), other.Derived()) || len(one.Derived()) != 12 || !slices.IsSorted(one.Derived()) {
		t.Fatalf("%q and %q", one.Derived(), other.Derived())
	}
	for name, change := range map[string]func(b *Broker){
		"topic":  func(b *Broker) { b.meta.topics["A"] = wire.TopicConfig{TopicName: "A", Perm: 2} },
		"group":  func(b *Broker) { delete(b.meta.groups, "B") },
		"offset": func(b *Broker) { b.meta.offsets[offsetKey{"g", "C"}][1] = 8 },
		"queue":  func(b *Broker) { b.queues.table[queueKey{"A", 1}].next++ },
	} {
		changed := build("A", "B", "C")
		change(changed)
		if slices.Equal(one.Derived(), changed.Derived()) {
			t.Errorf("another %s does not show", name)
		}
	}
	if off, end, ok := one.ConsumerOffset("g", "A", 1); off != 7 || end != 9 || !ok {
		t.Errorf("offset %d, end %d, %v", off, end, ok)
	}
	for _, q := range []int32{-1, 0, 2} {
		if off, _, ok := one.ConsumerOffset("g", "A", q); ok {
			t.Errorf("queue %d: offset %d out of nothing", q, off)
		}
	}
}
