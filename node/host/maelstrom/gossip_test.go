package maelstrom

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/node"
	"lockstep/node/host/maelstrom/rpc"
)

// lonely is the gossip of n0 of two nodes, which hears nobody.
func lonely(t *testing.T, dir *folder) *gossip {
	t.Helper()
	n := rpc.NewNode()
	n.Stdout = io.Discard
	n.Init("n0", []string{"n0", "n1"})
	h := &Host{o: Options{Node: n, Log: slog.New(slog.DiscardHandler)}, self: "n0", nodes: []string{"n0", "n1"}, dir: dir}
	g, err := openGossip(h, dir)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func values(texts ...string) (out []json.RawMessage) {
	for _, s := range texts {
		out = append(out, json.RawMessage(s))
	}
	return out
}

// TestSlowNeighbour: an acknowledgement that takes longer than the time after which
// values are sent again counts all the same, and then the nodes are quiet.
func TestSlowNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, 2)
		r.latency = gossipAgain
		for i := range 5 {
			r.must("n0", fmt.Sprintf(`"type":"broadcast","message":%d`, i), "broadcast_ok", time.Second)
		}
		<-time.After(20 * gossipAgain)
		if got := text(r.must("n1", `"type":"read"`, "read_ok", time.Second)["messages"]); got != "[0,1,2,3,4]" {
			t.Errorf("n1 knows %s", got)
		}
		before := r.between.Load()
		<-time.After(100 * gossipAgain)
		if n := r.between.Load() - before; n > 0 {
			t.Errorf("%d more messages though both know everything", n)
		}
	})
}

// TestUnwrittenValues: values that cannot be written down are not known, so that
// nobody is told that they are; nor is half of a message that is refused.
func TestUnwrittenValues(t *testing.T) {
	dir := &folder{path: t.TempDir(), life: 1}
	g := lonely(t, dir)
	if err := g.learn(node.Now{}, "n1", values("1", "2")); err != nil {
		t.Fatal(err)
	}
	good := g.file
	var err error
	if g.file, err = os.Open(good.Name()); err != nil { // for reading only
		t.Fatal(err)
	}
	for range 2 {
		if err := g.learn(node.Now{}, "n1", values("3")); err == nil {
			t.Fatal("a value that was not written down is acknowledged")
		}
	}
	g.file.Close()
	g.file = good
	if err := g.learn(node.Now{}, "n1", values("4", "", "5")); err == nil {
		t.Fatal("a message with a value that is none is acknowledged")
	}
	if err := g.learn(node.Now{}, "n1", values("6", "4", "6")); err != nil {
		t.Fatal(err)
	}
	want := values("1", "2", "6", "4")
	equal := func(a, b json.RawMessage) bool { return string(a) == string(b) }
	if !slices.EqualFunc(g.values, want, equal) {
		t.Errorf("the node knows %s, want %s", g.values, want)
	}
	if again := lonely(t, dir); !slices.EqualFunc(again.values, want, equal) {
		t.Errorf("its next life knows %s, want %s", again.values, want)
	}
}

// TestStaleAcknowledgement: what a neighbour acknowledged to an earlier life, which
// may have sent other values, counts for nothing.
func TestStaleAcknowledgement(t *testing.T) {
	dir := &folder{path: t.TempDir(), life: 1}
	var now node.Now
	g := lonely(t, dir)
	batches := map[uint64]bool{}
	for ; dir.life < 4; dir.life++ {
		g = lonely(t, dir)
		if err := g.learn(now, "", values(fmt.Sprint(dir.life))); err != nil {
			t.Fatal(err)
		}
		now.Mono = now.Mono.Add(time.Second)
		g.settle(now)
		b := g.near[0].batch
		if batches[b] {
			t.Errorf("two messages have the number %d", b)
		}
		batches[b] = true
	}
}

// TestInitAgain: what kept a node from beginning is put right; the next init works.
func TestInitAgain(t *testing.T) {
	data := t.TempDir()
	n := rpc.NewNode()
	n.Stdout = io.Discard
	h := &Host{o: Options{Node: n, Data: data, Profile: DefaultProfile(1), Log: slog.New(slog.DiscardHandler)}, clock: testClock, done: make(chan struct{})}
	h.box.wake = make(chan struct{}, 1)
	inTheWay := data + "/n0/broadcast"
	if err := os.MkdirAll(inTheWay, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := h.initialise("n0", []string{"n0"}); err == nil {
		t.Fatal("a node begins without its file")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := h.initialise("n0", []string{"n0"}); err != nil {
		t.Fatal(err)
	}
	h.box.put(fact{kind: factStop})
	<-h.done
}
