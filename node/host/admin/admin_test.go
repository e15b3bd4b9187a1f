package admin

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/host"
	"lockstep/node/wire"
	"lockstep/storage"
)

// still is a machine that only has conditions and gauges.
type still struct{ conds []node.Condition }

func (*still) SessionUp(node.Now, node.SessionID, node.Peer)  {}
func (*still) Receive(node.Now, node.SessionID, *wire.Frame)  {}
func (*still) SessionDown(node.Now, node.SessionID, string)   {}
func (*still) DiskDone(node.Now, storage.Result)              {}
func (*still) Stop(node.Now)                                  {}
func (*still) Settle(_ node.Now, fx *node.Effects)            { fx.Emit(event.Event{Kind: event.Serving}) }
func (*still) Deadline() node.Time                            { return node.Never }
func (*still) Listeners() []node.Listener                     { return nil }
func (*still) CheckInvariants()                               {}
func (s *still) Conditions() []node.Condition                 { return s.conds }
func (*still) Gauges(report func(name string, value float64)) { report("queue_length", 7) }

func get(t *testing.T, p *Port, path string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + p.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, strings.TrimSpace(string(b))
}

func open(t *testing.T) *Port {
	t.Helper()
	p, err := Listen("127.0.0.1:0", "the store is being recovered", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); http.DefaultClient.CloseIdleConnections() })
	return p
}

func TestProbes(t *testing.T) {
	p := open(t)
	check := func(path string, code int, want string) {
		t.Helper()
		if c, body := get(t, p, path); c != code || body != want {
			t.Errorf("%s: %d %q, want %d %q", path, c, body, code, want)
		}
	}
	check("/livez", 200, "ok")
	check("/readyz", 503, "starting: the store is being recovered")
	check("/writable", 503, "starting: the store is being recovered")
	m := &still{}
	n, err := host.Start(host.Options{Name: "still", Machine: m})
	if err != nil {
		t.Fatal(err)
	}
	p.Attach(n)
	check("/livez", 200, "ok")
	check("/readyz", 200, "ok")
	set := func(cs ...node.Condition) {
		if err := n.Call(t.Context(), func(node.Now, node.Machine) { m.conds = cs }); err != nil {
			t.Fatal(err)
		}
	}
	set(node.Condition{Name: "role", Ready: true, Writable: true, Detail: "no controller\nanswers"},
		node.Condition{Name: "lease", Writable: true, Detail: "expired"},
		node.Condition{Name: "store", Ready: true, Writable: true, OK: true, Detail: "recovered"},
		node.Condition{Name: "identity", Ready: true})
	check("/readyz", 503, "role: no controller answers\nidentity")
	check("/writable", 503, "role: no controller answers\nlease: expired")
	_, text := get(t, p, "/metrics")
	for _, want := range []string{"lockstep_queue_length 7", `lockstep_events_total{kind="Serving"}`, "lockstep_loop_batches_total", "lockstep_sessions 0", "process_resident_memory_bytes", "go_goroutines"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	n.Kill()
	n.Wait()
	check("/livez", 503, "the node has ended")
	if c, _ := get(t, p, "/metrics"); c != 200 {
		t.Errorf("metrics of an ended node: %d", c)
	}
}

// A loop that stands still is not live.
func TestProbeOfAStuckLoop(t *testing.T) {
	p := open(t)
	n, err := host.Start(host.Options{Name: "still", Machine: &still{}})
	if err != nil {
		t.Fatal(err)
	}
	p.Attach(n)
	n.Pause()
	if c, body := get(t, p, "/livez"); c != 503 || !strings.Contains(body, "the loop of still does not answer: "+context.DeadlineExceeded.Error()) {
		t.Errorf("%d %q", c, body)
	}
	n.Kill()
	n.Wait()
}

func TestPortTaken(t *testing.T) {
	p := open(t)
	_, err := Listen(p.Addr(), "", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), p.Addr()) || !strings.Contains(err.Error(), "adminPort") {
		t.Errorf("error %v", err)
	}
}

// TestDeafScrapers: clients that ask for metrics and do not read them take no place
// from those that do.
func TestDeafScrapers(t *testing.T) {
	p := open(t)
	requests := []byte(strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 4000)) // answers are far above what buffers take
	for range maxScrapes {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go c.Write(requests)
	}
	served, limit := 0, time.After(4*writeTime)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for served < 30 { // in a row: at first nobody is deaf yet
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("no metrics for those who read them")
		}
		if code, _ := get(t, p, "/metrics"); code != http.StatusOK {
			served = 0
			continue
		}
		served++
	}
}
