package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Process is one running daemon as others see it.
type Process struct {
	Name string
	Kind string // broker, controller or namesrv
	PID  int
	Addr string // remoting
	port int
}

func (d *daemon) process() Process {
	return Process{Name: d.name, Kind: d.kind, PID: d.cmd.Process.Pid, Addr: fmt.Sprintf("127.0.0.1:%d", d.port), port: d.port + 2}
}

// Processes are the daemons of a kind in the order they were started; "" takes all.
func (c *Cluster) Processes(kind string) []Process {
	var out []Process
	for _, d := range c.daemons {
		if kind == "" || d.kind == kind {
			out = append(out, d.process())
		}
	}
	return out
}

// Writable waits for the broker that accepts writes.
func (c *Cluster) Writable(ctx context.Context, limit time.Duration) (Process, error) {
	d, err := c.Master(ctx, limit)
	if err != nil {
		return Process{}, err
	}
	return d.process(), nil
}

// Until polls a condition of the cluster until it holds or the limit has passed.
func Until(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	return until(ctx, limit, what, holds)
}

// Gauge reads one number of the daemon's metrics by its full name.
func (p Process) Gauge(ctx context.Context, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", p.port), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", p.Name, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", p.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", p.Name, name)
}
