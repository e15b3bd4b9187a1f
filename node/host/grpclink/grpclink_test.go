package grpclink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
)

// pair is a served and a dialling link.
func pair(t *testing.T) (server, client *Link, ln net.Listener) {
	t.Helper()
	before := runtime.NumGoroutine()
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	server, client = New(dial), New(dial)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln = server.Listen(tcp)
	t.Cleanup(func() {
		ln.Close()
		client.Close()
		server.Close()
		limit := time.After(20 * time.Second)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for runtime.NumGoroutine() > before {
			select {
			case <-tick.C:
			case <-limit:
				t.Errorf("%d goroutines are left of %d", runtime.NumGoroutine()-before, before)
				return
			}
		}
	})
	return server, client, ln
}

// ends dials one stream and accepts it.
func ends(t *testing.T, client *Link, ln net.Listener) (dialled, accepted net.Conn) {
	t.Helper()
	dialled, err := client.Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if accepted, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}

func TestStreamsCarryBytesBothWays(t *testing.T) {
	_, client, ln := pair(t)
	text := bytes.Repeat([]byte("0123456789"), 100_000) // several pieces
	for range 3 {                                       // one connection, several streams
		d, a := ends(t, client, ln)
		go func() {
			io.Copy(a, a) // echoes until the other half ends
			a.Close()
		}()
		sent := make(chan error, 1)
		go func() {
			_, err := d.Write(text)
			sent <- errors.Join(err, d.(interface{ CloseWrite() error }).CloseWrite())
		}()
		back, err := io.ReadAll(d)
		if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%d bytes of %d came back, error %v", len(back), len(text), err)
		}
		d.Close()
	}
	if n := len(client.clients); n != 1 {
		t.Errorf("%d connections to one address", n)
	}
}

// The buffer of a Write is the caller's again when it returns.
func TestWriteKeepsNothing(t *testing.T) {
	_, client, ln := pair(t)
	d, a := ends(t, client, ln)
	b := []byte("first")
	for range 20 {
		copy(b, "first")
		if _, err := d.Write(b); err != nil {
			t.Fatal(err)
		}
		copy(b, "XXXXX")
	}
	got := make([]byte, 100)
	if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte("first"), 20)) {
		t.Errorf("got %q, error %v", got, err)
	}
	a.Close()
	d.Close()
}

func TestEndsOfStreams(t *testing.T) {
	server, client, ln := pair(t)
	d, a := ends(t, client, ln)
	a.Write([]byte("last"))
	a.Close() // of the accepting end: what was written still arrives
	if b, err := io.ReadAll(d); err != nil || string(b) != "last" {
		t.Errorf("read %q, error %v", b, err)
	}
	d.Close()

	d, a = ends(t, client, ln)
	d.Close() // of the dialling end, at once
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("the accepted end goes on")
	}
	if _, err := a.Write([]byte("x")); err == nil {
		if _, err = a.Read(make([]byte, 1)); err == nil {
			t.Error("the accepted end goes on after a write")
		}
	}
	a.Close()
	a.Close()

	d, a = ends(t, client, ln)
	ln.Close() // streams outlive their listener
	go a.Write([]byte("still"))
	b := make([]byte, 5)
	if _, err := io.ReadFull(d, b); err != nil {
		t.Errorf("after the listener's end: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	go a.Close()
	server.Close()
	if _, err := d.Read(b); err == nil {
		t.Error("the stream outlives its server")
	}
	d.Close()
	if err := d.SetDeadline(time.Now()); !errors.Is(err, os.ErrNoDeadline) {
		t.Errorf("deadline: %v", err)
	}
}

func TestDialFails(t *testing.T) {
	server, client, ln := pair(t)
	addr := ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Dial(ctx, addr); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ln.Close()
	server.Close()
	// The cancelled dial may have left a connection whose end the client has not heard
	// of: then the dial succeeds and the first read says it.
	if c, err := client.Dial(t.Context(), addr); err == nil {
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes from where nobody serves", n)
		}
		c.Close()
	}
	client.Close()
	if _, err := client.Dial(t.Context(), addr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial of a closed link: %v", err)
	}
}

// TestIdleConnections: whoever connects and opens no stream is closed, be it mute or
// polite; a controller whose connection that was dials again without noticing.
func TestIdleConnections(t *testing.T) {
	_, client, _ := pair(t)
	server := New(client.dial)
	server.idle = 50 * time.Millisecond
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := server.Listen(tcp)
	defer server.Close()
	defer ln.Close()
	for name, greeting := range map[string]string{"mute": "", "polite": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte(greeting))
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays", name)
		}
		c.Close()
	}
	for range 2 {
		d, a := ends(t, client, ln)
		<-time.After(3 * server.idle) // a connection with a stream is not idle
		go a.Write([]byte("x"))
		if _, err := io.ReadFull(d, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		d.Close()
		a.Close()
		<-time.After(3 * server.idle)
	}
}
