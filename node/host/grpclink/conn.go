package grpclink

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
)

// codec passes bytes through: the stream's own frames are the only format.
type codec struct{}

var _ encoding.Codec = codec{}

// Marshal returns the bytes of a *[]byte.
func (codec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a stream carries bytes, not %T", v)
	}
	return *b, nil
}

// Unmarshal copies the bytes into a *[]byte.
func (codec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a stream carries bytes, not %T", v)
	}
	*b = append((*b)[:0], data...)
	return nil
}

// Name is the content subtype on the wire.
func (codec) Name() string { return "lockstep-bytes" }

// stream is what both ends of a call share.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// conn is one stream. One goroutine may read and one write, as gRPC allows.
type conn struct {
	stream        stream
	rest, piece   []byte // what the last Read left of the newest piece
	local, remote net.Addr
	end           func() // releases the call
	once          sync.Once
}

// Read returns bytes of the newest piece, or waits for the next one.
func (c *conn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		if err := c.stream.RecvMsg(&c.piece); err == io.EOF {
			return 0, err
		} else if err != nil {
			return 0, plain(err)
		}
		c.rest = c.piece
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write sends b in pieces. It blocks while the peer does not read.
func (c *conn) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		// gRPC keeps the message after SendMsg returns, the caller reuses b.
		piece := append([]byte(nil), b[sent:min(len(b), sent+maxPiece)]...)
		if err := c.stream.SendMsg(&piece); err != nil {
			return sent, plain(err)
		}
		sent += len(piece)
	}
	return sent, nil
}

// Close ends the stream. An accepted stream's last bytes still leave, a dialled
// one's only after CloseWrite.
func (c *conn) Close() error {
	c.once.Do(c.end)
	return nil
}

// LocalAddr is the listener's address, or "stream".
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's address.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is not supported: gRPC's keep-alive finds dead peers.
func (c *conn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline is not supported.
func (c *conn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline is not supported.
func (c *conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// dialledConn can also end its sending half.
type dialledConn struct {
	conn
	call grpc.ClientStream
}

// CloseWrite tells the peer that no more will come.
func (c *dialledConn) CloseWrite() error { return c.call.CloseSend() }

// streamAddr is the address of an end that is no socket.
type streamAddr string

// Network is "grpc".
func (streamAddr) Network() string { return "grpc" }

// String is the address as it was dialled.
func (a streamAddr) String() string { return string(a) }
