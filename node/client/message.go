package client

import "lockstep/internal/ha"

// Message is one message to send.
type Message struct {
	Topic string
	Body  []byte // immutable until the outcome is taken
	// Key identifies the message for reconciliation: it becomes UNIQ_KEY and KEYS.
	// "" lets the client make a unique one.
	Key string
	Tag string
	// Properties are further properties in the order given.
	Properties []Property
	// Broker and Queue fix the queue when Broker is not empty: tries then stay on
	// that broker group (order); otherwise the client chooses.
	Broker string
	Queue  int32
	// NoWait sets WAIT=false: the broker answers after the append (no promise).
	NoWait bool
}

// Property is one message property.
type Property struct{ Name, Value string }

// Received is one message as pulled.
type Received struct {
	Topic       string
	Broker      string
	Queue       int32
	QueueOffset int64
	Log         ha.LogOffset
	Key         string // UNIQ_KEY
	Tag         string
	Body        []byte // decompressed
	Properties  []Property
	// BornMillis and StoreMillis are the wall clocks of sender and broker.
	BornMillis, StoreMillis int64
	ReconsumeTimes          int32
}

// Property returns the value of name; the last wins when it occurs twice.
func (r *Received) Property(name string) (string, bool) {
	for i := len(r.Properties) - 1; i >= 0; i-- {
		if r.Properties[i].Name == name {
			return r.Properties[i].Value, true
		}
	}
	return "", false
}
