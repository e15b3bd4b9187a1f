package broker

import (
	"testing"

	"lockstep/node/wire"
)

// TestDurabilityTexts: answers carry the names that the wire contract lists.
func TestDurabilityTexts(t *testing.T) {
	for d, want := range map[Durability]string{
		Local: wire.DurabilityLocal, ReplicatedReceived: wire.DurabilityReceived, Replicated: wire.DurabilityReplicated,
	} {
		if d.String() != want {
			t.Errorf("durability %d is %q, want %q", d, d, want)
		}
	}
}

// TestSendSaysWhatItProves: a SEND_OK of a set of one claims the master alone; an
// answer that nobody waited for claims nothing.
func TestSendSaysWhatItProves(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	r, err := h.ok(h.send("T", 0, "a", "kept")).SendResponse()
	if err != nil || r.Durability != wire.DurabilityLocal {
		t.Errorf("durability %q, %v; want %q", r.Durability, err, wire.DurabilityLocal)
	}
	hurry := h.request(wire.ReqSendMessage, sendHeader("T", 0, props("WAIT", "false")), []byte("hurry"))
	h.put(1, hurry)
	h.run()
	if r, err = h.ok(h.answer(1, hurry.Head.Opaque)).SendResponse(); err != nil || r.Durability != "" {
		t.Errorf("durability %q, %v of a send without a wait; want none", r.Durability, err)
	}
}
