package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"lockstep/node"
	"lockstep/node/host"
)

const (
	// readinessPeriod is how often a daemon looks at what it waits for.
	readinessPeriod = 5 * time.Second
	// waitLimit is how long it may wait before the log says for what; a start or an
	// election takes less.
	waitLimit = 15 * time.Second
	// reminder follows the first warning as long as the wait lasts.
	reminder = 5 * time.Minute
)

// readiness follows how long a node has not been ready, so that no daemon waits for
// ever in silence.
type readiness struct {
	since time.Time // not ready since; zero: it is
	told  time.Time // when the log last said so; zero: not of this wait
}

// see takes the conditions at an instant. It returns what is awaited when the log
// should say so, and whether a wait that was told of has ended.
func (r *readiness) see(now time.Time, conditions []node.Condition) (awaited string, over bool) {
	var open []string
	for _, c := range conditions {
		switch {
		case c.OK || !c.Ready:
		case c.Name == "running": // it is told to stop: nothing is awaited any more
			return "", false
		case c.Detail != "":
			open = append(open, c.Name+": "+c.Detail)
		default:
			open = append(open, c.Name)
		}
	}
	if len(open) == 0 {
		over = !r.told.IsZero()
		*r = readiness{}
		return "", over
	}
	if r.since.IsZero() {
		r.since = now
	}
	if now.Sub(r.since) < waitLimit || !r.told.IsZero() && now.Sub(r.told) < reminder {
		return "", false
	}
	r.told = now
	return strings.Join(open, "; "), false
}

// watch logs what a node waits for until the node ends.
func watch(log *slog.Logger, name string, n *host.Node) {
	var r readiness
	tick := time.NewTicker(readinessPeriod)
	defer tick.Stop()
	for {
		select {
		case <-n.Done():
			return
		case now := <-tick.C:
			var conditions []node.Condition
			if n.Call(context.Background(), func(_ node.Now, m node.Machine) { conditions = m.Conditions() }) != nil {
				return // it has ended
			}
			awaited, over := r.see(now, conditions)
			if awaited != "" {
				log.Warn("not ready", "node", name, "for", now.Sub(r.since).Round(time.Second), "awaited", awaited)
			}
			if over {
				log.Info("ready again", "node", name)
			}
		}
	}
}
