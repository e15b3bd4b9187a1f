package stream

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/node/wire"
)

// gather is a sink that keeps what it is given and takes it at once.
type gather struct {
	s      *Stream
	frames []wire.Frame
	ended  chan string
	bad    bool
}

func (g *gather) Deliver(batch []Received) {
	for _, r := range batch {
		g.frames = append(g.frames, *r.Frame)
		g.s.Took(r.Size)
	}
}

func (g *gather) Ended(reason string, rejected bool) {
	g.bad = rejected
	g.ended <- reason
}

// open runs a stream on one end of a pipe.
func open(t interface{ Helper() }, link wire.Link) (*Stream, *gather, net.Conn, *sync.WaitGroup) {
	t.Helper()
	near, far := net.Pipe()
	g := &gather{ended: make(chan string, 1)}
	var work sync.WaitGroup
	g.s = New(Options{Link: link, Credit: 8, InBytes: 1 << 20, OutBytes: 1 << 20, Counters: &Counters{}, Go: work.Go}, g)
	g.s.Run(near)
	return g.s, g, far, &work
}

// However the bytes are cut on their way, the same frames arrive, in order, and
// nothing that arrived is overwritten later.
func TestAnyCutOfTheBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := rapid.SampledFrom([]wire.Link{wire.Remoting, wire.Raft}).Draw(t, "link")
		bodies := rapid.SliceOfN(rapid.IntRange(0, 20_000), 1, 30).Draw(t, "bodies")
		var all []byte
		text := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), bodies[i]) }
		for i := range bodies {
			f := wire.Frame{Link: link, Body: []byte(text(i))}
			if link == wire.Remoting {
				f = wire.NewRequest(10, int32(i), nil, f.Body)
			}
			var err error
			if all, err = wire.AppendFrame(all, &f, wire.JSON); err != nil {
				t.Fatal(err)
			}
		}
		_, g, far, work := open(t, link)
		for len(all) > 0 {
			k := min(len(all), rapid.IntRange(1, 9_000).Draw(t, "piece"))
			if _, err := far.Write(all[:k]); err != nil {
				t.Fatal(err)
			}
			all = all[k:]
		}
		far.Close()
		if reason := <-g.ended; reason != "closed by peer" || g.bad {
			t.Fatalf("ended: %s", reason)
		}
		work.Wait()
		if len(g.frames) != len(bodies) {
			t.Fatalf("%d frames of %d", len(g.frames), len(bodies))
		}
		for i := range g.frames {
			if string(g.frames[i].Body) != text(i) || link == wire.Remoting && g.frames[i].Head.Opaque != int32(i) {
				t.Fatalf("frame %d is another", i)
			}
		}
	})
}

// What a stream is given leaves in order, whatever the writer's batches were.
func TestSendKeepsOrder(t *testing.T) {
	s, g, far, work := open(t, wire.Raft)
	go func() {
		for i := range 500 {
			frames := []wire.Frame{{Link: wire.Raft, Body: []byte{byte(i)}}, {Link: wire.Raft, Body: []byte{byte(i), 1}}}
			s.Send(&frames)
			if len(frames) != 0 {
				t.Error("the slice is not empty")
			}
		}
		s.Finish()
	}()
	d := wire.Decoder{Link: wire.Raft}
	var buf []byte
	got := 0
	for {
		piece := make([]byte, 777)
		k, err := far.Read(piece)
		buf = append(buf, piece[:k]...)
		for {
			f, used, err := d.DecodeCopy(buf)
			if err != nil {
				t.Fatal(err)
			}
			if used == 0 {
				break
			}
			if f.Body[0] != byte(got/2) || len(f.Body) != got%2+1 {
				t.Fatalf("frame %d: %v", got, f.Body)
			}
			got++
			buf = buf[used:]
		}
		if err != nil {
			break
		}
	}
	if reason := <-g.ended; got != 1000 || reason != Closed {
		t.Errorf("%d frames, ended: %s", got, reason)
	}
	work.Wait()
}

func TestEndedBeforeItRan(t *testing.T) {
	near, far := net.Pipe()
	s := New(Options{Counters: &Counters{}}, &gather{})
	s.Finish()
	if s.Run(near) || s.Reason() != Closed {
		t.Error("it runs")
	}
	far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}

// A frame under way is judged by its own time and size, and never by the first
// check that finds it: after a standstill that one knows nothing.
func TestFrameTime(t *testing.T) {
	begun := time.Now()
	for _, c := range []struct {
		name   string
		rest   int
		checks []time.Duration // after the first byte
		ends   bool            // at the last of them
	}{
		{"in time", 1, []time.Duration{15 * time.Second, 29 * time.Second}, false},
		{"too long", 1, []time.Duration{15 * time.Second, 31 * time.Second}, true},
		{"large", 640 << 10, []time.Duration{15 * time.Second, 30 * time.Second, 39 * time.Second}, false},
		{"large and too long", 640 << 10, []time.Duration{15 * time.Second, 30 * time.Second, 41 * time.Second}, true},
		{"after a standstill", 1, []time.Duration{time.Hour}, false},
		{"no frame", 0, []time.Duration{time.Hour, 2 * time.Hour}, false},
	} {
		r := reader{Stream: New(Options{Frame: 30 * time.Second}, nil), rest: c.rest, begun: begun}
		for i, after := range c.checks {
			err := r.check(begun.Add(after))
			if (err != nil) != (c.ends && i == len(c.checks)-1) {
				t.Errorf("%s: check %d: %v", c.name, i, err)
			}
		}
	}
}
