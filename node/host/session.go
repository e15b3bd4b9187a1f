package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// session is one stream: a reader that decodes and prepares, a writer that
// encodes whatever has gathered and writes it at once.
type session struct {
	n    *Node
	id   node.SessionID
	peer node.Peer
	conn net.Conn           // nil while dialling; guarded by out.mu until the stream is up
	stop context.CancelFunc // ends a dial; nil when accepted

	// Loop state.
	up      bool
	pending []wire.Frame // of this batch

	credit credit
	out    outbox
	active atomic.Uint32 // counts reads and writes, for the idle check

	once   sync.Once
	done   chan struct{} // closed when the stream is
	reason string        // written before done is closed
}

// newSession registers a stream; nil when the node ends or has as many accepted
// sessions as it may.
func (n *Node) newSession(id node.SessionID, conn net.Conn, peer node.Peer) *session {
	s := &session{n: n, id: id, peer: peer, conn: conn, done: make(chan struct{})}
	s.credit.init(n.o.Credit, int64(n.o.InBytes))
	s.out.wake = make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing || !s.dialled() && n.accepted >= n.o.MaxSessions {
		n.counters.refused.Add(1)
		return nil
	}
	if !s.dialled() {
		n.lastID++
		n.accepted++
		s.id = n.lastID
	}
	n.live[s] = struct{}{}
	return s
}

func (s *session) dialled() bool { return s.id&node.Dialled != 0 }

// ended tells the machine and forgets the stream; its reader or dialler calls it
// last.
func (s *session) ended(rejected bool) {
	s.n.mu.Lock()
	delete(s.n.live, s)
	if !s.dialled() {
		s.n.accepted--
	}
	s.n.mu.Unlock()
	s.n.box.put(fact{kind: factDown, session: s, reason: s.reason, rejected: rejected})
}

// acceptPause bounds the pause after an accept that failed, as it does while the
// process has no file descriptor left.
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
		s := n.newSession(0, conn, node.Peer{Link: l.at.Link, Addr: conn.RemoteAddr().String(), Local: l.at.Addr})
		if s == nil {
			conn.Close() // refused: nothing was read from it
			continue
		}
		s.start()
	}
}

// dial opens an outgoing stream without holding up the loop.
func (n *Node) dial(d node.Dial) {
	s := n.newSession(d.Session, nil, node.Peer{Link: d.Link, Addr: d.Addr})
	if s == nil {
		return // the node ends
	}
	n.sessions[s.id] = s
	ctx, stop := context.WithCancel(n.ctx)
	s.stop = stop
	n.work.Go(func() {
		defer stop()
		conn, err := n.open(ctx, d)
		if err == nil && s.connected(conn) {
			s.start()
			return
		}
		if err != nil {
			s.close(fmt.Errorf("dial %s: %w", d.Addr, err))
		}
		s.ended(false)
	})
}

func (n *Node) open(ctx context.Context, d node.Dial) (net.Conn, error) {
	if d.Link == wire.Raft {
		return n.grpc.Dial(ctx, d.Addr)
	}
	return n.o.Dial(ctx, d.Link, d.Addr)
}

// connected gives a dialled session its connection, unless it was closed before.
func (s *session) connected(conn net.Conn) bool {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	if s.out.finishing {
		conn.Close() // nothing was sent on it
		return false
	}
	s.conn = conn
	return true
}

// start tells the machine of a connected stream and runs it. SessionUp is in the
// mailbox before the first frame can be.
func (s *session) start() {
	s.n.box.put(fact{kind: factUp, session: s})
	s.n.work.Go(s.read)
	s.n.work.Go(s.write)
}

// finish closes the session once what was handed over is written, at the latest
// after flushTime.
func (s *session) finish() {
	s.handOver()
	s.out.mu.Lock()
	s.out.finishing = true
	dialling := s.conn == nil
	s.out.mu.Unlock()
	if dialling {
		s.close(errClosed)
		return
	}
	s.out.signal()
	time.AfterFunc(flushTime, func() { s.close(errClosed) })
}

var errClosed = errors.New(reasonClosed)

// linger ends the sending half after the last byte and leaves the reader to see
// the peer's end: closing at once would reset the connection while the peer's
// bytes are unread, and take our last frames with it.
func (s *session) linger() {
	if half, ok := s.conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		s.close(errClosed)
	}
}

// close ends both directions; the first reason is kept.
func (s *session) close(err error) {
	s.once.Do(func() {
		s.reason = "closed by peer"
		if err != nil && !errors.Is(err, io.EOF) {
			s.reason = err.Error()
		}
		close(s.done)
		if s.stop != nil {
			s.stop()
		}
		s.out.mu.Lock()
		s.out.finishing = true
		conn := s.conn
		s.out.mu.Unlock()
		if conn != nil {
			conn.Close() // the reason is known; an error here adds nothing
		}
	})
}

// abort resets the connection, as the kernel does for a killed process.
func (s *session) abort() {
	s.out.mu.Lock()
	c, ok := s.conn.(*net.TCPConn)
	s.out.mu.Unlock()
	if ok {
		c.SetLinger(0) // best effort: without it the peer sees an orderly end
	}
	s.close(errors.New("killed"))
}
