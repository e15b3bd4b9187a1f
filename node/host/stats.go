package host

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/host/stream"
)

// counters are the host's own numbers.
type counters struct {
	batches, facts, busy, slowest atomic.Int64 // busy and slowest in nanoseconds
	rejected, refused, panics     atomic.Int64
	withheld                      atomic.Int64
	streams                       stream.Counters
	events                        [256]atomic.Int64
}

// slowBatch is a batch that is worth a warning: a lease's margin has to cover the
// longest one (P12). What a longer one would have said too late is withheld.
const slowBatch = 500 * time.Millisecond

func (c *counters) batch(facts int, took time.Duration) {
	c.batches.Add(1)
	c.facts.Add(int64(facts))
	c.busy.Add(int64(took))
	if int64(took) > c.slowest.Load() {
		c.slowest.Store(int64(took)) // only the loop writes
	}
}

// Stats are the host's numbers since the start. Times in nanoseconds.
type Stats struct {
	Batches, Facts, BusyNanos, SlowestNanos int64
	BytesIn, BytesOut, Writes               int64
	Sessions                                int64 // open ones, accepted and dialled
	Rejected                                int64 // sessions closed for bytes that are no frame
	Refused                                 int64 // connections closed because there were too many
	Slow                                    int64 // sessions closed because they did not drain
	Panics                                  int64
	Waiting                                 int64 // bytes that wait to be written to sessions
	Withheld                                int64 // answers not sent because their time was over (Send.Before)
}

// Stats returns the numbers; any goroutine may ask.
func (n *Node) Stats() Stats {
	c := &n.counters
	n.mu.Lock()
	open := len(n.live)
	n.mu.Unlock()
	return Stats{
		Batches: c.batches.Load(), Facts: c.facts.Load(), BusyNanos: c.busy.Load(), SlowestNanos: c.slowest.Load(),
		BytesIn: c.streams.BytesIn.Load(), BytesOut: c.streams.BytesOut.Load(), Writes: c.streams.Writes.Load(), Sessions: int64(open),
		Rejected: c.rejected.Load(), Refused: c.refused.Load(), Slow: c.streams.Slow.Load(), Panics: c.panics.Load(), Waiting: c.streams.Waiting.Load(), Withheld: c.withheld.Load(),
	}
}

// Events calls report with how often each kind of event happened, kinds that did
// not left out.
func (n *Node) Events(report func(k event.Kind, count int64)) {
	for i := range n.counters.events {
		if v := n.counters.events[i].Load(); v > 0 {
			report(event.Kind(i), v)
		}
	}
}

// report prints and counts one event and passes it on.
func (n *Node) report(now node.Now, e event.Event) {
	e.Node, e.At = n.o.Name, int64(now.Mono)
	n.counters.events[e.Kind].Add(1)
	if level := levelOf(&e); n.o.Log.Enabled(context.Background(), level) {
		n.o.Log.LogAttrs(context.Background(), level, e.Kind.String(), attrsOf(&e)...)
	}
	if n.o.Observe != nil {
		n.o.Observe(e)
	}
}

// attrsOf are the fields of an event that say something.
func attrsOf(e *event.Event) []slog.Attr {
	out := make([]slog.Attr, 0, 8)
	out = append(out, slog.String("node", e.Node))
	put := func(name string, v int64) {
		if v != 0 {
			out = append(out, slog.Int64(name, v))
		}
	}
	if e.Group != "" {
		out = append(out, slog.String("group", e.Group))
	}
	put("broker", int64(e.Broker))
	put("epoch", int64(e.Epoch))
	put("setEpoch", int64(e.SetEpoch))
	if len(e.Set) > 0 {
		out = append(out, slog.Any("set", e.Set))
	}
	put("offset", int64(e.Off))
	put("offset2", int64(e.Off2))
	put(countName(e.Kind), e.Count)
	put("code", int64(e.Code))
	if e.Text != "" {
		out = append(out, slog.String("text", e.Text))
	}
	return out
}

// countName is what an event counts, where that is no amount of what its name says.
func countName(k event.Kind) string {
	switch k {
	case event.LeaseGranted, event.LeaseInstalled, event.LeaseExpired:
		return "generation"
	case event.ConfirmFrozen:
		return "thaws"
	}
	return "count"
}

// levelOf is how much an event matters to whoever reads the log.
func levelOf(e *event.Event) slog.Level {
	switch e.Kind {
	case event.DiskFailed, event.StoreSuspect, event.RebuildNeeded:
		return slog.LevelError
	case event.DiskFull, event.LeaseExpired, event.ElectionFailed, event.HandshakeRefused, event.ChunkRefused,
		event.RegisterRefused, event.FrameRejected:
		return slog.LevelWarn
	case event.ConfirmFrozen:
		if e.Count > 0 {
			return slog.LevelWarn // the set shrank; every epoch begins with a set of one
		}
	case event.LeaseInstalled, event.LeaseGranted, event.RequestRefused, event.ClientRetry, event.RoleNotified, event.Mark:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
