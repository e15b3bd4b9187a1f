package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/node/wire"
)

// TestRegisters: registers are written and read through the leader, outlive it and
// a restart of everybody from snapshots, and what is wrong with a request is said.
func TestRegisters(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.SnapshotEvery, o.KeepEntries = 5, 2 }).startAll()
	br := b.addBroker(1, 0)
	b.until("a leader", 10*time.Second, func() bool { return b.leader() != nil })
	ask := func(code int32, h wire.RegisterRequest, want int32) string {
		t.Helper()
		f, ok := br.ask(code, h, nil)
		if !ok || f.Head.Code != want {
			t.Fatalf("%s %+v: %+v", wire.RequestName(code), h, f)
		}
		var out wire.RegisterResponse
		if code == wire.ReqReadRegister && want == 0 {
			if err := wire.DecodeExt(f.Head.Ext, &out); err != nil {
				t.Fatal(err)
			}
		}
		return out.Value
	}
	read := func(name, want string) {
		t.Helper()
		if got := ask(wire.ReqReadRegister, wire.RegisterRequest{Name: name}, 0); got != want {
			t.Fatalf("register %s is %q, want %q", name, got, want)
		}
	}
	ask(wire.ReqReadRegister, wire.RegisterRequest{Name: "x"}, wire.CodeRegisterNotExist)
	ask(wire.ReqSwapRegister, wire.RegisterRequest{Name: "x", From: "1", Value: "2"}, wire.CodeRegisterNotExist)
	ask(wire.ReqWriteRegister, wire.RegisterRequest{Name: "x", Value: "1"}, 0)
	ask(wire.ReqWriteRegister, wire.RegisterRequest{Name: "empty"}, 0)
	read("x", "1")
	read("empty", "")
	ask(wire.ReqSwapRegister, wire.RegisterRequest{Name: "x", From: "2", Value: "3"}, wire.CodeRegisterDiffers)
	ask(wire.ReqSwapRegister, wire.RegisterRequest{Name: "x", From: "1", Value: "3"}, 0)
	for range 10 { // beyond a snapshot
		ask(wire.ReqWriteRegister, wire.RegisterRequest{Name: "y", Value: "z"}, 0)
	}
	long := strings.Repeat("l", maxRegister+1)
	for _, h := range []wire.RegisterRequest{{}, {Name: long}, {Name: "x", Value: long}, {Name: "x", From: long}} {
		ask(wire.ReqSwapRegister, h, wire.CodeInvalidRequest)
	}

	old := b.leader()
	follower := b.names[0]
	if follower == old.name {
		follower = b.names[1]
	}
	if f, ok := br.askAt(follower, wire.ReqReadRegister, wire.RegisterRequest{Name: "x"}, nil, time.Second); !ok || f.Head.Code != wire.CodeNotLeader {
		t.Errorf("a follower answers %+v", f)
	}
	if got := b.nodes[follower].c.Leader(); got != old.name {
		t.Errorf("the follower names %q as the leader, not %q", got, old.name)
	}
	old.crash()
	b.until("another leader", 10*time.Second, func() bool { return b.leader() != nil && b.leader() != old })
	read("x", "3")
	for _, n := range b.names {
		if b.nodes[n].up {
			b.nodes[n].crash()
		}
	}
	b.startAll()
	b.until("a leader again", 20*time.Second, func() bool { return b.leader() != nil })
	read("x", "3")
	read("y", "z")
}

// TestReadOfDeposedLeader: a leader that is cut off does not answer reads from what
// it remembers.
func TestReadOfDeposedLeader(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	br := b.addBroker(1, 0)
	b.until("a leader", 10*time.Second, func() bool { return b.leader() != nil })
	if f, ok := br.ask(wire.ReqWriteRegister, wire.RegisterRequest{Name: "x", Value: "1"}, nil); !ok || f.Head.Code != 0 {
		t.Fatalf("%+v", f)
	}
	old := b.leader().name
	b.isolate(old)
	f, ok := br.askAt(old, wire.ReqReadRegister, wire.RegisterRequest{Name: "x"}, nil, 8*time.Second)
	if ok && f.Head.Code == 0 {
		t.Errorf("an isolated leader answered a read: %+v", f)
	}
}

// TestRegistersFull: one more register than there may be is refused, and what is
// there can still be written.
func TestRegistersFull(t *testing.T) {
	var s State
	for i := range maxRegisters {
		s.Registers = append(s.Registers, Register{Name: fmt.Sprintf("r%05d", i)})
	}
	if out := (&writeRegister{"zz", "1"}).apply(&s); out.code != wire.CodeRegistersFull {
		t.Errorf("%+v", out)
	}
	if out := (&writeRegister{s.Registers[5].Name, "1"}).apply(&s); !out.ok() {
		t.Errorf("%+v", out)
	}
}
