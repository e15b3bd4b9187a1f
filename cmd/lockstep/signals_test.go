package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"lockstep/node"
)

// TestEcho: a signal that comes twice at once is one request; a later one, or one of
// another kind, is another.
func TestEcho(t *testing.T) {
	began := node.Time(7e9)
	for _, c := range []struct {
		name  string
		first os.Signal
		then  os.Signal
		after time.Duration
		echo  bool
	}{
		{"to a process and its group", syscall.SIGTERM, syscall.SIGTERM, 0, true},
		{"just in time", syscall.SIGTERM, syscall.SIGTERM, echoTime - 1, true},
		{"an operator's second", syscall.SIGTERM, syscall.SIGTERM, echoTime, false},
		{"another kind", syscall.SIGTERM, syscall.SIGINT, 0, false},
		{"nobody asked before", nil, syscall.SIGTERM, 0, false},
	} {
		f := firstSignal{c.first, began}
		if got := f.echo(c.then, began.Add(c.after)); got != c.echo {
			t.Errorf("%s: echo %v", c.name, got)
		}
	}
}

// TestSecondSignal: echoes are passed over until a signal means more.
func TestSecondSignal(t *testing.T) {
	at := node.Time(0)
	clock := func() node.Now {
		at = at.Add(echoTime / 2)
		return node.Now{Mono: at}
	}
	signals := make(chan os.Signal, 3)
	first := firstSignal{syscall.SIGTERM, clock().Mono}
	signals <- syscall.SIGTERM // half the time later
	signals <- syscall.SIGINT
	if s := first.second(signals, clock); s != syscall.SIGINT {
		t.Errorf("%v, want the other kind", s)
	}
	signals <- syscall.SIGTERM // by now it is late
	if s := first.second(signals, clock); s != syscall.SIGTERM {
		t.Errorf("%v, want the late one", s)
	}
}
