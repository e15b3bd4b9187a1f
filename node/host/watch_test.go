package host

import (
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

func TestWatchersSeeFramesAndTheEnd(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(what string) {
		if what == "exit" {
			mu.Lock()
			defer mu.Unlock()
		} else if mu.TryLock() { // Turn is held
			mu.Unlock()
			what += " outside a turn"
		}
		seen = append(seen, what)
	}
	m := newToy(remoting())
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		note("received")
		echo(m, s, f)
	}
	n := start(t, Options{Machine: m, Turn: &mu,
		OnDeliver: func(_ node.SessionID, f *wire.Frame) { note("delivered " + string(f.Body)) },
		OnSend:    func(_ node.SessionID, f *wire.Frame) { note("sent " + string(f.Body)) },
		OnExit:    func(node.Exit) { note("exit") },
	})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, "x"))
	p.expect(1, "x")
	n.Stop()
	n.Wait()
	if want := []string{"delivered x", "received", "sent x", "exit"}; !slices.Equal(seen, want) {
		t.Fatalf("seen %q, want %q", seen, want)
	}
}

// TestTurnsExclude runs machines that share a turn and a counter without any other
// protection.
func TestTurnsExclude(t *testing.T) {
	var mu sync.Mutex
	shared := 0
	var nodes []*Node
	for range 3 {
		m := newToy(remoting())
		m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
			shared++
			echo(m, s, f)
		}
		nodes = append(nodes, start(t, Options{Machine: m, Turn: &mu}))
	}
	const each = 50
	var wg sync.WaitGroup
	for _, n := range nodes {
		p := connect(t, n.Addrs()[0], wire.Remoting)
		wg.Go(func() {
			for i := range each {
				p.send(request(i, "x"))
				p.expect(i, "x")
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if shared != each*len(nodes) {
		t.Fatalf("%d frames were counted, want %d", shared, each*len(nodes))
	}
}

// TestKillBetweenTurns kills a node by the owner of the turn: no batch follows.
func TestKillBetweenTurns(t *testing.T) {
	var mu sync.Mutex
	m := newToy(remoting())
	n := start(t, Options{Machine: m, Turn: &mu})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	eventually(t, "the session is up", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(m.ups) == 1
	})
	mu.Lock()
	p.send(request(1, "x"))
	n.Kill()
	mu.Unlock()
	n.Wait()
	if m.received != 0 {
		t.Fatal("a killed machine received a frame")
	}
}

func TestPaceShortensSleeps(t *testing.T) {
	const pace = 1000
	real, began := BootClock(), BootClock()().Mono
	m := newToy()
	m.deadline = node.Time(0).Add(100 * time.Second)
	done := make(chan struct{})
	m.settle = func(m *toy, now node.Now) {
		if now.Mono >= m.deadline && m.deadline != node.Never {
			m.deadline = node.Never
			close(done)
		}
	}
	start(t, Options{Machine: m, Pace: pace, Clock: func() node.Now {
		return node.Now{Mono: (real().Mono - began) * pace}
	}})
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a deadline after 100s at a pace of 1000 did not come within 10s")
	}
}
