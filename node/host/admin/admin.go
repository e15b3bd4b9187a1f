// Package admin serves the probes and metrics of one node on a port of its own:
// /livez, /readyz, /writable and /metrics. The port opens before the node runs,
// so that a long recovery can be watched.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lockstep/node"
	"lockstep/node/host"
)

// AnswerTimeout bounds how long a probe waits for the node's loop; a loop that
// is slower is not live.
const AnswerTimeout = 2 * time.Second

const (
	// writeTime bounds one answer, from the question to the last byte that the client
	// takes; it is above AnswerTimeout, which is part of it.
	writeTime = 3 * time.Second
	// maxScrapes is how many clients may ask for metrics at once; one more gets a 503.
	maxScrapes = 4
)

// Port is one node's admin port.
type Port struct {
	server *http.Server
	ln     net.Listener
	node   atomic.Pointer[host.Node] // nil until the node runs
	phase  atomic.Pointer[string]    // what the process does until then
	over   chan struct{}
}

// Listen opens the port. phase is what /readyz answers until Attach.
func Listen(addr, phase string, log *slog.Logger) (*Port, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w; adminPort sets the port of the probes", host.ListenError("probes", addr, err))
	}
	p := &Port{ln: ln, over: make(chan struct{})}
	p.phase.Store(&phase)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", p.livez)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		p.probe(w, r, func(c node.Condition) bool { return c.Ready })
	})
	mux.HandleFunc("GET /writable", func(w http.ResponseWriter, r *http.Request) {
		p.probe(w, r, func(c node.Condition) bool { return c.Writable })
	})
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{p})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: AnswerTimeout, WriteTimeout: writeTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		defer close(p.over)
		if err := p.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin port ended", "addr", addr, "error", err)
		}
	}()
	return p, nil
}

// Attach names the running node; from now on it answers.
func (p *Port) Attach(n *host.Node) { p.node.Store(n) }

// Addr is the bound address.
func (p *Port) Addr() string { return p.ln.Addr().String() }

// Close ends the port and its connections.
func (p *Port) Close() error {
	err := p.server.Close()
	<-p.over
	return err
}

// ask runs f on the node's loop; nil means that it ran.
func (p *Port) ask(ctx context.Context, f func(m node.Machine)) error {
	n := p.node.Load()
	if n == nil {
		return errors.New("starting: " + *p.phase.Load())
	}
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	return n.Call(ctx, func(_ node.Now, m node.Machine) { f(m) })
}

// livez fails when the loop does not answer; a process that is still starting
// lives.
func (p *Port) livez(w http.ResponseWriter, r *http.Request) {
	if p.node.Load() != nil {
		if err := p.ask(r.Context(), func(node.Machine) {}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

// probe answers 200 when every condition that counts holds, else 503 with one
// line for each that fails.
func (p *Port) probe(w http.ResponseWriter, r *http.Request, counts func(node.Condition) bool) {
	got := make(chan []node.Condition, 1) // the loop may run it after we gave up
	if err := p.ask(r.Context(), func(m node.Machine) { got <- m.Conditions() }); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var failing []string
	for _, c := range <-got {
		if counts(c) && !c.OK {
			failing = append(failing, strings.TrimSuffix(c.Name+": "+strings.ReplaceAll(c.Detail, "\n", " "), ": "))
		}
	}
	if len(failing) > 0 {
		http.Error(w, strings.Join(failing, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
