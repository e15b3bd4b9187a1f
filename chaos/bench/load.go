package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/node/wire"
)

// Load is one way of sending: Waiting producers share each of Conns connections,
// and each sends its next message when its last was answered.
type Load struct {
	Name           string
	Conns, Waiting int
}

// Result is what a load measured.
type Result struct {
	PerSecond float64       // acknowledged
	P50, P99  time.Duration // from the write of a request to its answer
	Refused   int           // answers other than SEND_OK
	Remark    string        // the first of them
}

// sender is one connection and its waiting producers.
type sender struct {
	conn      net.Conn
	templates []template
	began     []int64 // by producer, nanoseconds of the clock
	next      []int32 // by producer, the number of its next request
	out, in   []byte
	clock     func() int64
	from, to  int64   // the measured window
	latency   []int64 // of answers inside the window
	refused   int
	remark    string
}

// Drive runs a load at addr, warms up, and measures for the given time.
func Drive(ctx context.Context, addr string, l Load, warm, lasts time.Duration) (Result, error) {
	began := time.Now()
	clock := func() int64 { return int64(time.Since(began)) }
	ctx, cancel := context.WithTimeout(ctx, warm+lasts+30*time.Second)
	defer cancel()
	senders := make([]*sender, l.Conns)
	for i := range senders {
		s, err := newSender(ctx, addr, l, i)
		if err != nil {
			return Result{}, errors.Join(err, closeAll(senders))
		}
		s.clock, s.from, s.to = clock, int64(warm), int64(warm+lasts)
		senders[i] = s
	}
	stop := context.AfterFunc(ctx, func() {
		for _, s := range senders {
			s.conn.Close() // unblocks it; the context has the reason
		}
	})
	defer stop()
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	for _, s := range senders {
		work.Go(func() {
			if err := s.run(); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	work.Wait()
	err := closeAll(senders)
	if e := failed.Load(); e != nil {
		err = fmt.Errorf("load %s: %w", l.Name, errors.Join(*e, ctx.Err()))
	}
	return collect(senders, lasts), err
}

func newSender(ctx context.Context, addr string, l Load, index int) (*sender, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &sender{conn: conn, began: make([]int64, l.Waiting), next: make([]int32, l.Waiting), in: make([]byte, 0, 64<<10)}
	for i := range l.Waiting {
		t, err := newTemplate(int32((index*l.Waiting + i) % queues))
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		s.templates = append(s.templates, t)
		s.next[i] = firstOpaque + int32(i)
	}
	return s, nil
}

func closeAll(senders []*sender) error {
	var errs []error
	for _, s := range senders {
		if s == nil {
			continue
		}
		if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// run sends until the window is over and every request is answered.
func (s *sender) run() error {
	open := len(s.next)
	now := s.clock()
	for p := range s.next {
		s.send(p, now)
	}
	for open > 0 {
		if len(s.out) > 0 {
			if _, err := s.conn.Write(s.out); err != nil {
				return err
			}
			s.out = s.out[:0]
		}
		if len(s.in) == cap(s.in) {
			s.in = append(s.in, 0)[:len(s.in)]
		}
		n, err := s.conn.Read(s.in[len(s.in):cap(s.in)])
		if err != nil {
			return err
		}
		s.in = s.in[:len(s.in)+n]
		ended, err := s.answers()
		if err != nil {
			return err
		}
		open -= ended
	}
	return nil
}

func (s *sender) send(p int, now int64) {
	s.began[p] = now
	s.out = s.templates[p].appendTo(s.out, s.next[p])
	if s.next[p] > maxOpaque-int32(len(s.next)) {
		s.next[p] = firstOpaque + int32(p)
		return
	}
	s.next[p] += int32(len(s.next))
}

// answers takes every whole frame and sends the next message of each producer that
// was answered; it returns how many producers have ended.
func (s *sender) answers() (ended int, err error) {
	now := s.clock()
	at := 0
	for len(s.in)-at >= 8 {
		size := int(binary.BigEndian.Uint32(s.in[at:])) + 4
		if len(s.in)-at < size {
			break
		}
		head := int(binary.BigEndian.Uint32(s.in[at+4:]) & 0xffffff)
		if 8+head > size {
			return ended, fmt.Errorf("a frame of %d bytes has a header of %d", size, head)
		}
		p, err := s.answer(s.in[at+8:at+8+head], now)
		if err != nil {
			return ended, err
		}
		at += size
		if now < s.to {
			s.send(p, now)
		} else {
			ended++
		}
	}
	s.in = append(s.in[:0], s.in[at:]...)
	return ended, nil
}

// answer takes one answer and returns whose it is.
func (s *sender) answer(head []byte, now int64) (producer int, err error) {
	opaque, ok := member(head, `"opaque":`)
	code, known := member(head, `"code":`)
	if !ok || !known || opaque < firstOpaque {
		return 0, fmt.Errorf("an answer without its number or code: %.200s", head)
	}
	producer = int(opaque-firstOpaque) % len(s.next)
	if code != int64(wire.CodeSuccess) {
		if s.refused++; s.remark == "" {
			s.remark = fmt.Sprintf("%.300s", head)
		}
		return producer, nil
	}
	if now >= s.from && now < s.to {
		s.latency = append(s.latency, now-s.began[producer])
	}
	return producer, nil
}

// collect adds the senders up.
func collect(senders []*sender, lasts time.Duration) Result {
	var all []int64
	var r Result
	for _, s := range senders {
		all = append(all, s.latency...)
		if r.Refused += s.refused; r.Remark == "" {
			r.Remark = s.remark
		}
	}
	slices.Sort(all)
	if len(all) > 0 {
		r.P50, r.P99 = time.Duration(all[len(all)/2]), time.Duration(all[len(all)*99/100])
	}
	r.PerSecond = float64(len(all)) / lasts.Seconds()
	return r
}
