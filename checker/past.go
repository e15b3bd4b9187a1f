package checker

import "lockstep/internal/ha"

// Past is a Truth that remembers what faults have taken: a copy may die while the
// acknowledgement that rests on it is still on its way to the producer. That the
// copy had been there is then seen in the disk as it was just before the fault.
type Past interface {
	// Gone are the brokers whose store was lost, or whose power failed, so short a
	// time ago that what they had acknowledged may still be counted.
	Gone(group string) ha.IDs
	// Before is what such a broker held just before, on its platter and in its cache;
	// nil where it held nothing.
	Before(group string, b ha.BrokerID, off ha.LogOffset, n int) (durable, cached []byte)
}

// underWay explains a copy that died before the acknowledgement left.
const underWay = "a fault while the acknowledgement was under way"

// gatherPast notes copies that a fault took while the acknowledgement was under
// way: they stood behind it, and they are dead.
func (l *Ledger) gatherPast(m *message) {
	past, ok := l.truth.(Past)
	if !ok {
		return
	}
	a := m.ack
	for _, b := range past.Gone(a.Group) {
		durable, cached := past.Before(a.Group, b, a.Log, m.size)
		class := ha.ClassUnknown
		switch {
		case durable != nil && hashOf(durable) == m.hash:
			class = ha.ClassDurable
		case cached != nil && hashOf(cached) == m.hash:
			class = ha.ClassReceived
		}
		if class > m.class(b) {
			m.copies = append([]copyState{{broker: b, class: class, died: underWay}}, m.copies...)
		}
	}
}
