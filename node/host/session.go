package host

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"lockstep/node"
	"lockstep/node/host/stream"
	"lockstep/node/wire"
)

// session is a stream that the machine knows by its id. Its stream's reader is
// the only user of facts.
type session struct {
	*stream.Stream
	n    *Node
	id   node.SessionID
	peer node.Peer
	stop context.CancelFunc // ends a dial; nil when accepted

	heard bool          // a frame came; the reader's
	place *list.Element // in the node's silent list; nil when it is in none. Guarded by the node's mu
	freed bool          // its place went to a newer one; guarded by the node's mu

	// Loop state.
	up      bool
	hungUp  bool         // the machine closed it
	pending []wire.Frame // of this batch

	machine node.Preparer // nil when the machine has nothing to prepare
	facts   []fact
}

// newSession registers a stream; nil when the node ends, or has as many accepted
// sessions as it may and all of them have sent a frame.
func (n *Node) newSession(id node.SessionID, peer node.Peer) *session {
	s := &session{n: n, id: id, peer: peer}
	s.machine, _ = n.o.Machine.(node.Preparer)
	o := stream.Options{Link: peer.Link, Credit: n.o.Credit, InBytes: int64(n.o.InBytes), OutBytes: n.o.OutBytes, Frame: n.o.FrameTime, Counters: &n.counters.streams, Go: n.spawn}
	if peer.Link == wire.Remoting { // the other links have heartbeats of their own
		o.Idle = n.o.Idle
	}
	s.Stream = stream.New(o, s)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing || !s.dialled() && n.accepted >= n.o.MaxSessions && !n.makeRoom(peer) {
		n.counters.refused.Add(1)
		return nil
	}
	if !s.dialled() {
		n.lastID++
		n.accepted++
		s.id = n.lastID
		s.place = n.silent.PushBack(s)
	}
	n.live[s] = struct{}{}
	return s
}

// crowd is when the node last complained that it has all the sessions it may have,
// and the connections closed for that since.
type crowd struct {
	told   time.Time
	closed int
}

// crowdPause is the least time between two such complaints.
const crowdPause = 10 * time.Second

// errGaveWay ends a session that took a place and did nothing with it.
var errGaveWay = errors.New("gave way to a newer connection: it never sent a frame, and there are too many")

// makeRoom ends the accepted session that has been silent longest since it was
// opened, so that idle connections keep no client out; false when every one has
// sent a frame. The caller holds mu.
func (n *Node) makeRoom(newest node.Peer) bool {
	n.crowd.closed++
	if now := time.Now(); n.crowd.told.IsZero() || now.Sub(n.crowd.told) >= crowdPause {
		n.o.Log.Warn("too many connections: those that never sent a frame are closed first, then new ones",
			"node", n.o.Name, "limit", n.o.MaxSessions, "closed", n.crowd.closed, "listener", newest.Local, "from", newest.Addr)
		n.crowd = crowd{told: now}
	}
	oldest := n.silent.Front()
	if oldest == nil {
		return false
	}
	s := n.silent.Remove(oldest).(*session)
	s.place, s.freed = nil, true
	n.accepted--
	n.counters.refused.Add(1)
	s.Close(errGaveWay)
	return true
}

// leave takes a session off the silent list. The caller holds mu.
func (s *session) leave() {
	if s.place != nil {
		s.n.silent.Remove(s.place)
		s.place = nil
	}
}

// spawn runs f on a goroutine that the node waits for at its end.
func (n *Node) spawn(f func()) {
	n.work.Go(func() {
		defer n.contain("a session")
		f()
	})
}

func (s *session) dialled() bool { return s.id&node.Dialled != 0 }

// Deliver prepares frames on the reader's goroutine and gives them to the loop.
func (s *session) Deliver(batch []stream.Received) {
	if !s.heard {
		s.heard = true
		s.n.mu.Lock()
		s.leave()
		s.n.mu.Unlock()
	}
	if s.machine != nil {
		now := s.n.o.Clock()
		for i := range batch {
			s.machine.Prepare(now, batch[i].Frame, s.peer)
		}
	}
	for _, r := range batch {
		s.facts = append(s.facts, fact{kind: factReceive, session: s, frame: r.Frame, size: r.Size})
	}
	s.n.box.put(s.facts...)
	clear(s.facts)
	s.facts = s.facts[:0]
}

// Ended tells the machine and forgets the stream.
func (s *session) Ended(reason string, rejected bool) {
	s.n.mu.Lock()
	delete(s.n.live, s)
	s.leave()
	if !s.dialled() && !s.freed {
		s.n.accepted--
	}
	s.n.mu.Unlock()
	if rejected {
		reason = fmt.Sprintf("%v from %s: %s", s.peer.Link, s.peer.Addr, reason)
	}
	s.n.box.put(fact{kind: factDown, session: s, reason: reason, rejected: rejected})
}

// acceptPause follows an accept that failed, as it does while the process has no
// file descriptor left.
const acceptPause = 100 * time.Millisecond

// accept serves one listener until it is closed.
func (n *Node) accept(l listener) {
	for {
		conn, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n.o.Log.Error("accept failed", "node", n.o.Name, "listener", l.at.Addr, "error", err)
			select {
			case <-time.After(acceptPause):
			case <-n.ctx.Done():
			}
			continue
		}
		s := n.newSession(0, node.Peer{Link: l.at.Link, Addr: conn.RemoteAddr().String(), Local: l.at.Addr})
		if s == nil {
			conn.Close() // refused: nothing was read from it
			continue
		}
		s.run(conn)
	}
}

// run tells the machine of a connected stream and starts it. SessionUp is in the
// mailbox before the first frame can be.
func (s *session) run(conn net.Conn) {
	s.n.box.put(fact{kind: factUp, session: s})
	if !s.Run(conn) {
		s.Ended(s.Reason(), false)
	}
}

// dial opens an outgoing stream without holding up the loop.
func (n *Node) dial(d node.Dial) {
	s := n.newSession(d.Session, node.Peer{Link: d.Link, Addr: d.Addr})
	if s == nil {
		return // the node ends
	}
	n.sessions[s.id] = s
	ctx, stop := context.WithCancel(n.ctx)
	s.stop = stop
	n.spawn(func() {
		defer stop()
		conn, err := n.open(ctx, d)
		if err != nil {
			s.Close(fmt.Errorf("dial %s: %w", d.Addr, err))
			s.Ended(s.Reason(), false)
			return
		}
		s.run(conn)
	})
}

func (n *Node) open(ctx context.Context, d node.Dial) (net.Conn, error) {
	if d.Link == wire.Raft {
		return n.grpc.Dial(ctx, d.Addr)
	}
	return n.o.Dial(ctx, d.Link, d.Addr)
}

// finish closes the session once what was handed over is written.
func (s *session) finish() {
	s.Send(&s.pending)
	s.Finish()
	if s.stop != nil {
		s.stop() // a dial under way is given up; a stream that is up does not mind
	}
}
