// Package grpclink carries byte streams over gRPC, as connections and listeners
// of package net: controllers talk to each other through it. Each stream is one
// call of lockstep.Stream/Open, whose messages are pieces of the stream; streams
// to one address share one gRPC connection.
package grpclink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	service = "lockstep.Stream"
	method  = "/" + service + "/Open"
	// maxPiece bounds one message, bytes; a longer write becomes several.
	maxPiece = 256 << 10
	// maxStreams bounds the streams of one connection.
	maxStreams = 256
	// idleTime is how long a connection may be without a stream, from its start too:
	// whoever takes descriptors and opens nothing gives them back.
	idleTime = 10 * time.Second
	// pingEvery and pingWait find a peer that is gone without a word.
	pingEvery = 10 * time.Second
	pingWait  = 5 * time.Second
)

// reconnect keeps attempts well below an election: the caller dials again at its
// own pace anyway.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
	MinConnectTimeout: time.Second,
}

var desc = grpc.StreamDesc{StreamName: "Open", ServerStreams: true, ClientStreams: true}

// Link serves and dials streams.
type Link struct {
	dial func(ctx context.Context, addr string) (net.Conn, error)
	idle time.Duration // idleTime, less in tests

	mu      sync.Mutex
	servers []*grpc.Server
	clients map[string]*grpc.ClientConn // nil once closed
	work    sync.WaitGroup
}

// New returns a link that opens sockets with dial.
func New(dial func(ctx context.Context, addr string) (net.Conn, error)) *Link {
	return &Link{dial: dial, idle: idleTime, clients: map[string]*grpc.ClientConn{}}
}

// Close ends all streams and connections and waits for them.
func (l *Link) Close() error {
	l.mu.Lock()
	servers, clients := l.servers, l.clients
	l.servers, l.clients = nil, nil
	l.mu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	l.work.Wait()
	return errors.Join(errs...)
}

// Listen serves streams on ln. Closing what it returns ends accepting; streams go
// on until they or the link are closed.
func (l *Link) Listen(ln net.Listener) net.Listener {
	out := &listener{ln: ln, streams: make(chan *conn), over: make(chan struct{})}
	server := grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(2*maxPiece), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(l.idle),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: l.idle, Time: pingEvery, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 4, PermitWithoutStream: true}))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: desc.StreamName, ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, st grpc.ServerStream) error { return out.handle(st) },
	}}}, struct{}{})
	l.mu.Lock()
	l.servers = append(l.servers, server)
	l.mu.Unlock()
	l.work.Go(func() {
		server.Serve(ln) // ends with the listener; Accept reports it
		out.Close()
	})
	return out
}

// Dial opens a stream. It returns once the connection stands; a peer that does
// not serve streams shows at the first Read.
func (l *Link) Dial(ctx context.Context, addr string) (net.Conn, error) {
	client, err := l.client(addr)
	if err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel) // ctx bounds the dial, not the stream
	st, err := client.NewStream(own, &desc, method)
	if !stop() || err != nil {
		cancel()
		return nil, errors.Join(ctx.Err(), plain(err))
	}
	return &dialledConn{conn{stream: st, local: streamAddr("stream"), remote: streamAddr(addr), end: cancel}, st}, nil
}

func (l *Link) client(addr string) (*grpc.ClientConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		return nil, net.ErrClosed
	}
	if c := l.clients[addr]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(2*maxPiece)),
		grpc.WithContextDialer(l.dial), grpc.WithConnectParams(reconnect), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingWait}))
	if err != nil {
		return nil, fmt.Errorf("gRPC connection to %s: %w", addr, err)
	}
	l.clients[addr] = c
	return c, nil
}

// listener hands accepted streams over.
type listener struct {
	ln      net.Listener
	streams chan *conn
	over    chan struct{}
	once    sync.Once
}

// handle is one incoming call; it lasts as long as its stream.
func (l *listener) handle(st grpc.ServerStream) error {
	from := streamAddr("?")
	if p, ok := peer.FromContext(st.Context()); ok {
		from = streamAddr(p.Addr.String())
	}
	closed := make(chan struct{})
	c := &conn{stream: st, local: l.ln.Addr(), remote: from, end: func() { close(closed) }}
	select {
	case l.streams <- c:
	case <-l.over:
		return status.Error(codes.Unavailable, "the node is shutting down")
	case <-st.Context().Done():
		return st.Context().Err()
	}
	<-closed // whoever accepted it closes it, at the latest when it cannot be read any more
	return nil
}

// Accept waits for the next stream.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends accepting.
func (l *listener) Close() error {
	var err error
	l.once.Do(func() {
		close(l.over)
		err = l.ln.Close()
	})
	return err
}

// Addr is the address of the socket.
func (l *listener) Addr() net.Addr { return l.ln.Addr() }

// plain shortens gRPC's error texts.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}
