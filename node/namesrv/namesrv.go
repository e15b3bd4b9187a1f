// Package namesrv is the name server: the one place where clients learn which
// broker group carries a topic and at which address its master listens. It keeps
// everything in memory; a restarted name server is filled again by the brokers'
// registrations and says "not ready" until then.
//
// It elects nobody. It only refuses to be fooled: a registration is compared with
// what it would replace by (master epoch, boot of the same store, session), and an
// older one changes nothing, in whatever order the frames arrive (HA contracts
// 7.1, field report R-13).
package namesrv

import (
	"fmt"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// NameServer is the machine of a name server.
type NameServer struct {
	opt      Options
	now      node.Now
	started  bool
	readyAt  node.Time
	ready    bool
	sessions map[node.SessionID]*session
	nextGen  uint64
	groups   groupTable
	config   configTable
	liveness liveness

	sends  []node.Send
	closes []node.SessionID
	events []event.Event
	exit   *node.Exit

	stats counters
}

// counters are what the gauges report beside sizes.
type counters struct {
	registrations, ignored, expired, refused, routes int64
}

// session is one open stream. Its generation orders sessions by their coming up.
type session struct {
	id    node.SessionID
	gen   uint64
	peer  node.Peer
	bound []*member // registrations last heard on this session; may hold gone ones
}

var _ node.Machine = (*NameServer)(nil)

// New returns a name server, or the faults of its options. It starts with the
// first call that brings a clock.
func New(o Options) (*NameServer, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("name server options: %w", err)
	}
	n := &NameServer{opt: o.withDefaults(), sessions: map[node.SessionID]*session{}, ready: !o.NeedWaitForService}
	n.groups = newGroupTable()
	n.config = newConfigTable()
	n.liveness.earliest = node.Never
	return n, nil
}

// SessionUp records a stream; one above the limit is closed.
func (n *NameServer) SessionUp(now node.Now, s node.SessionID, p node.Peer) {
	n.tick(now)
	if len(n.sessions) >= n.opt.MaxSessions {
		n.closes = append(n.closes, s)
		n.emit(event.Event{Kind: event.FrameRejected, Text: fmt.Sprintf("session limit %d reached (maxSessions)", n.opt.MaxSessions)})
		return
	}
	n.nextGen++
	n.sessions[s] = &session{id: s, gen: n.nextGen, peer: p}
}

// Receive answers one request. Frames of unknown sessions and responses (nobody
// here waits for one) are dropped.
func (n *NameServer) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	n.tick(now)
	from := n.sessions[s]
	if from == nil || f.Link != wire.Remoting || f.Head.Response() {
		return
	}
	a := n.serve(from, f)
	if a.code != wire.CodeSuccess {
		n.stats.refused++
		n.emit(event.Event{Kind: event.RequestRefused, Code: a.code, Count: int64(f.Head.Code), Text: a.remark})
	}
	if f.Head.Oneway() {
		return
	}
	reply := wire.NewResponse(&f.Head, a.code, nil, a.body)
	reply.Head.Remark, reply.Head.Ext = a.remark, a.ext
	n.sends = append(n.sends, node.Send{To: s, Frame: reply})
}

// SessionDown ends the registrations that were last heard on this session, and
// no others: a broker that is already back on another one stays (wire contracts
// 2.6 "a closed connection unregisters at once").
func (n *NameServer) SessionDown(now node.Now, s node.SessionID, reason string) {
	n.tick(now)
	from := n.sessions[s]
	if from == nil {
		return
	}
	delete(n.sessions, s)
	for _, m := range from.bound {
		if m.session == s && !m.gone {
			n.remove(m, "connection closed: "+reason)
		}
	}
}

// DiskDone is never due: a name server writes nothing.
func (n *NameServer) DiskDone(now node.Now, r storage.Result) {
	n.tick(now)
	invariant.That(false, "name server: result of operation %d, but it issues none", r.Op.ID)
}

// Stop exits at once; brokers and clients have other name servers.
func (n *NameServer) Stop(now node.Now) {
	n.tick(now)
	n.exit = &node.Exit{Code: node.ExitClean, Reason: "stopped"}
}

// Settle expires what is due and hands out what the facts left to say.
func (n *NameServer) Settle(now node.Now, fx *node.Effects) {
	n.tick(now)
	n.settleReady()
	n.settleExpiry()
	fx.Sends = append(fx.Sends, n.sends...)
	fx.Closes = append(fx.Closes, n.closes...)
	fx.Events = append(fx.Events, n.events...)
	if n.exit != nil {
		fx.Exit, n.exit = n.exit, nil
	}
	clear(n.sends)
	n.sends, n.closes, n.events = n.sends[:0], n.closes[:0], n.events[:0]
}

func (n *NameServer) settleReady() {
	n.ready = n.ready || n.now.Mono >= n.readyAt
}

// Deadline is the end of the warm-up or the earliest possible expiry; at once
// before the first call, which starts the warm-up.
func (n *NameServer) Deadline() node.Time {
	if !n.started {
		return 0
	}
	d := n.liveness.earliest
	if !n.ready {
		d = min(d, n.readyAt)
	}
	return d
}

// Listeners is the one served address.
func (n *NameServer) Listeners() []node.Listener {
	return []node.Listener{{Link: wire.Remoting, Addr: n.opt.ListenAddr}}
}

// Conditions: ready after the warm-up; a name server has nothing to write.
func (n *NameServer) Conditions() []node.Condition {
	detail := ""
	if !n.ready {
		detail = "warming up: brokers may not have registered yet (waitSecondsForService)"
	}
	return []node.Condition{{Name: "warm-up", Ready: true, OK: n.ready, Detail: detail}}
}

// Gauges reports sizes and counts.
func (n *NameServer) Gauges(report func(string, float64)) {
	report("namesrv_sessions", float64(len(n.sessions)))
	report("namesrv_broker_groups", float64(len(n.groups.names)))
	report("namesrv_brokers", float64(n.groups.members))
	report("namesrv_topic_entries", float64(n.groups.topics))
	report("namesrv_kv_entries", float64(n.config.entries))
	report("namesrv_registrations_total", float64(n.stats.registrations))
	report("namesrv_registrations_ignored_total", float64(n.stats.ignored))
	report("namesrv_brokers_expired_total", float64(n.stats.expired))
	report("namesrv_requests_refused_total", float64(n.stats.refused))
	report("namesrv_route_queries_total", float64(n.stats.routes))
}

// tick takes the clocks of a call and forgives time in which the loop did not run
// (liveness.go).
func (n *NameServer) tick(now node.Now) {
	if !n.started {
		n.started, n.readyAt = true, now.Mono.Add(n.opt.WaitSecondsForService)
	} else if now.Mono > n.now.Mono {
		n.forgiveStall(now.Mono)
	}
	n.now = now
	n.liveness.last = now.Mono
}

func (n *NameServer) emit(e event.Event) { n.events = append(n.events, e) }

// millis turns a header's milliseconds into a duration, without overflow.
func millis(ms int64) time.Duration {
	if ms > int64(maxDuration/time.Millisecond) {
		return maxDuration
	}
	return time.Duration(ms) * time.Millisecond
}
