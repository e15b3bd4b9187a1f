package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// The baseline is the least a replicated broker could do: a leader process takes
// sends, appends whatever has gathered to a file, gives it to two follower
// processes, calls fdatasync as they do, and answers when all three have. It parses
// nothing but the request number, keeps no index, checks nothing.

const (
	// baselineFile is how much of a file is allocated; the log wraps around in it.
	baselineFile = 256 << 20
	// maxBatchBytes bounds a batch between the baseline's processes.
	maxBatchBytes = 64 << 20
)

// baselineLog is a preallocated file that is written around.
type baselineLog struct {
	f  *os.File
	at int64
}

func openBaselineLog(name string) (*baselineLog, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, baselineFile); err != nil {
		return nil, errors.Join(fmt.Errorf("allocate %s: %w", name, err), f.Close())
	}
	return &baselineLog{f: f}, errors.Join(f.Sync())
}

// store writes and syncs one batch.
func (l *baselineLog) store(b []byte) error {
	if l.at+int64(len(b)) > baselineFile {
		l.at = 0
	}
	if _, err := l.f.WriteAt(b, l.at); err != nil {
		return err
	}
	l.at += int64(len(b))
	return syscall.Fdatasync(int(l.f.Fd()))
}

// Follow is a follower of the baseline: it stores each batch and says so. It ends
// when its input does.
func Follow(listen, file string, ready io.Writer) error {
	l, err := openBaselineLog(file)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(ready, ln.Addr())
	conn, err := ln.Accept()
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(conn, 256<<10)
	var buf []byte
	var size [4]byte
	for {
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return nil // the leader has gone
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxBatchBytes {
			return fmt.Errorf("batch of %d bytes", n)
		}
		if cap(buf) < int(n) {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			return err
		}
		if err := l.store(buf[:n]); err != nil {
			return err
		}
		if _, err := conn.Write(size[:]); err != nil {
			return err
		}
	}
}

// leader is the serving process of the baseline.
type leader struct {
	log       *baselineLog
	followers []net.Conn

	mu      sync.Mutex
	batch   []byte // what has gathered
	waiting []waiting
	some    chan struct{} // holds one token
}

type waiting struct {
	conn   net.Conn
	opaque int64
}

// Lead serves the baseline until the context ends.
func Lead(ctx context.Context, listen, file string, followers []string, ready io.Writer) error {
	log, err := openBaselineLog(file)
	if err != nil {
		return err
	}
	s := &leader{log: log, some: make(chan struct{}, 1)}
	for _, addr := range followers {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		s.followers = append(s.followers, c)
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(ready, ln.Addr())
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	go func() {
		if err := s.loop(); err != nil {
			fmt.Fprintln(os.Stderr, "baseline:", err)
			os.Exit(1)
		}
	}()
	for {
		c, err := ln.Accept()
		if err != nil {
			return nil // told to end
		}
		go s.read(c)
	}
}

// read gathers the sends of one connection.
func (s *leader) read(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	var buf []byte
	for {
		head, err := in.Peek(4)
		if err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(head)) + 4
		if n > maxBatchBytes {
			return
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			return
		}
		opaque, ok := member(buf[8:n], `"opaque":`)
		if !ok {
			return
		}
		s.mu.Lock()
		s.batch = append(s.batch, buf[:n]...)
		s.waiting = append(s.waiting, waiting{c, opaque})
		s.mu.Unlock()
		if in.Buffered() == 0 {
			s.wake()
		}
	}
}

func (s *leader) wake() {
	select {
	case s.some <- struct{}{}:
	default: // the loop will look anyway
	}
}

// loop stores and answers batch after batch.
func (s *leader) loop() error {
	var batch []byte
	var who []waiting
	var size [4]byte
	for range s.some {
		s.mu.Lock()
		batch, s.batch = s.batch, batch[:0]
		who, s.waiting = s.waiting, who[:0]
		s.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		binary.BigEndian.PutUint32(size[:], uint32(len(batch)))
		for _, f := range s.followers {
			if _, err := (&net.Buffers{size[:], batch}).WriteTo(f); err != nil {
				return err
			}
		}
		if err := s.log.store(batch); err != nil {
			return err
		}
		for _, f := range s.followers {
			if _, err := io.ReadFull(f, size[:]); err != nil {
				return err
			}
		}
		s.answer(who)
	}
	return nil
}

// answer writes the answers of a batch, one write a connection.
func (s *leader) answer(who []waiting) {
	out := map[net.Conn][]byte{}
	for _, w := range who {
		out[w.conn] = appendAnswer(out[w.conn], w.opaque)
	}
	for c, b := range out {
		c.Write(b) // a client that has gone needs no answer
	}
}

// appendAnswer is a frame of about the size of a real answer.
func appendAnswer(dst []byte, opaque int64) []byte {
	const tail = `,"language":"GO","version":477,"serializeTypeCurrentRPC":"JSON","extFields":{"msgId":"7F00000100002A9F0000000000000000","queueId":"0","queueOffset":"0","transactionId":"7F00000100010000000000000000","MSG_REGION":"DefaultRegion","TRACE_ON":"true","lsDurability":"replicated"}}`
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = fmt.Appendf(dst, `{"code":0,"flag":1,"opaque":%d`, opaque)
	dst = append(dst, tail...)
	n := len(dst) - at
	binary.BigEndian.PutUint32(dst[at:], uint32(n-4))
	binary.BigEndian.PutUint32(dst[at+4:], uint32(n-8))
	return dst
}
