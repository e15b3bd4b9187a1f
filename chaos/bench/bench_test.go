package bench

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/node/wire"
)

func TestTemplateIsASend(t *testing.T) {
	tp, err := newTemplate(3)
	if err != nil {
		t.Fatal(err)
	}
	raw := tp.appendTo([]byte("before"), 1_234_567_890)[len("before"):]
	d := wire.Decoder{Link: wire.Remoting}
	f, used, err := d.DecodeCopy(raw)
	if err != nil || used != len(raw) {
		t.Fatalf("%d of %d bytes: %v", used, len(raw), err)
	}
	h, err := f.SendRequest()
	if err != nil {
		t.Fatal(err)
	}
	if f.Head.Opaque != 1_234_567_890 || h.QueueID != 3 || h.Topic != topic || len(f.Body) != bodyBytes {
		t.Errorf("opaque %d queue %d topic %s body %d", f.Head.Opaque, h.QueueID, h.Topic, len(f.Body))
	}
	if !strings.Contains(h.Properties, "UNIQ_KEY\x017F000001000100000000001234567890\x02") {
		t.Errorf("properties %q", h.Properties)
	}
}

func TestMember(t *testing.T) {
	head := []byte(`{"code":0,"opaque":1000000017,"x":{"code":5}}`)
	if v, ok := member(head, `"opaque":`); v != 1_000_000_017 || !ok {
		t.Error(v, ok)
	}
	if v, ok := member(head, `"code":`); v != 0 || !ok {
		t.Error(v, ok)
	}
	for _, name := range []string{`"missing":`, `"x":`} {
		if v, ok := member(head, name); ok {
			t.Error(name, v)
		}
	}
}

func TestRowAgainstItsFloor(t *testing.T) {
	for _, c := range []struct {
		r           Row
		passed, met bool
	}{
		{Row{Measured: 100, Aim: 300}, true, false},
		{Row{Measured: 99, Aim: 300}, false, false},
		{Row{Measured: 300, Aim: 300}, true, true},
		{Row{Measured: 0, Aim: 300}, false, false},
		{Row{Measured: 40, Aim: 40, Less: true}, true, true},
		{Row{Measured: 120, Aim: 40, Less: true}, true, false},
		{Row{Measured: 121, Aim: 40, Less: true}, false, false},
	} {
		if c.r.Passed() != c.passed || c.r.Met() != c.met {
			t.Errorf("%+v: passed %v, met %v", c.r, c.r.Passed(), c.r.Met())
		}
	}
	if r := (Row{Measured: 6, Baseline: 4}); r.Ratio() != 1.5 {
		t.Error(r.Ratio())
	}
}

// started runs one of the baseline's processes on a goroutine and returns the
// address it says.
func started(t *testing.T, run func(ready io.Writer) error) string {
	t.Helper()
	r, w := io.Pipe()
	go func() {
		if err := run(w); err != nil {
			t.Error(err)
		}
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// The generator measures the baseline, and all three of its logs hold what was sent.
func TestDriveTheBaseline(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var followers []string
	for _, name := range []string{"a", "b"} {
		followers = append(followers, started(t, func(w io.Writer) error { return Follow("127.0.0.1:0", filepath.Join(dir, name), w) }))
	}
	addr := started(t, func(w io.Writer) error { return Lead(ctx, "127.0.0.1:0", filepath.Join(dir, "lead"), followers, w) })
	got, err := Drive(ctx, addr, Load{"test", 2, 3}, 0, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got.PerSecond <= 0 || got.P50 <= 0 || got.P99 < got.P50 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
	want := make([]byte, 4096)
	readAt(t, filepath.Join(dir, "lead"), want)
	if !bytes.Contains(want, []byte("UNIQ_KEY")) {
		t.Error("the leader stored something else")
	}
	for _, name := range []string{"a", "b"} {
		have := make([]byte, len(want))
		readAt(t, filepath.Join(dir, name), have)
		if !bytes.Equal(have, want) {
			t.Errorf("follower %s stored something else", name)
		}
	}
}

func readAt(t *testing.T, name string, b []byte) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, b); err != nil {
		t.Fatal(err)
	}
}

// An answer other than SEND_OK is counted apart and is no throughput.
func TestRefusalsAreNoThroughput(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		d := wire.Decoder{Link: wire.Remoting}
		var in []byte
		part := make([]byte, 4096)
		for {
			n, err := c.Read(part)
			if err != nil {
				return
			}
			in = append(in, part[:n]...)
			f, used, err := d.DecodeCopy(in)
			if err != nil {
				t.Error(err)
				return
			}
			if in = in[used:]; used == 0 {
				continue
			}
			no := wire.NewFailure(&f.Head, wire.CodeServiceNotAvailable, "no")
			raw, err := wire.AppendFrame(nil, &no, wire.JSON)
			if err != nil {
				t.Error(err)
				return
			}
			c.Write(raw) // the client may have gone
		}
	}()
	got, err := Drive(context.Background(), ln.Addr().String(), Load{"test", 1, 1}, 0, 50*time.Millisecond)
	if err != nil || got.PerSecond != 0 || got.Refused == 0 || !strings.Contains(got.Remark, `"remark":"no"`) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range append(Names(), RecoveryName) {
		if seen[n] {
			t.Errorf("two rows are called %s", n)
		}
		seen[n] = true
	}
}

func TestOwnProcess(t *testing.T) {
	if mib, err := resident(os.Getpid()); err != nil || mib < 1 || mib > 10_000 {
		t.Error(mib, err)
	}
	if _, err := processorTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := resident(-1); err == nil {
		t.Error("there is a process -1")
	}
}

func TestRecoveryOfASmallLog(t *testing.T) {
	row, err := Recovery(t.TempDir(), 8<<20)
	if err != nil || row.Measured <= 0 || !row.Less {
		t.Errorf("%+v %v", row, err)
	}
}
