// Package chaos runs drills on real processes: the product's daemons as child
// processes on loopback, real disks, a stock RocketMQ client as load, kill -9 and
// SIGSTOP as faults. What was acknowledged is reconciled by message key with what
// the logs on disk hold, by the judges and in the report schema of the simulator.
package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of a run.
type Options struct {
	Bin    string // the lockstep binary
	Client string // the stock client, built from chaos/interop
	Data   string // directory of stores, configurations and logs; must be empty or absent
	Rounds int    // kills of a master
	Rate   int    // messages per second
	Seed   uint64 // draws moments; the processes themselves are not replayable
	Flush  string // flushDiskType of the brokers
	Log    io.Writer
	// Segment is mappedFileSizeCommitLog in bytes; 0 takes a small one.
	Segment int64
	// Heartbeat is the heartbeat time-out of the brokers; 0 takes a short one. Lease
	// and catch-up time follow it.
	Heartbeat time.Duration
	// Broker are more lines of the brokers' configurations.
	Broker []string
}

// withDefaults fills in what was left open.
func (o Options) withDefaults() Options {
	if o.Segment == 0 {
		o.Segment = segmentBytes
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = heartbeatTimeout
	}
	return o
}

// Times of the real cluster: short, and valid by the product's own rules.
const (
	heartbeatTimeout = 3 * time.Second
	scanInterval     = 500 * time.Millisecond
	leaseOver        = 4 * time.Second // by which a lease is longer than the time-out
	minInSync        = 2
	replicas         = 3
	controllers      = 3
	segmentBytes     = 64 << 20
	group            = "broker-a"
	cluster          = "ChaosCluster"
	topic            = "ChaosTopic"
)

// daemon is one child process and how to start it again.
type daemon struct {
	name string
	kind string
	dir  string
	port int // remoting; port+1 is replication or raft; port+2 admin
	cmd  *exec.Cmd
	done chan struct{}
	out  *os.File
}

// Cluster is a running set of daemons.
type Cluster struct {
	o       Options
	daemons []*daemon
	base    int
	mu      sync.Mutex
	pauses  []string // names of stopped processes, to be continued before the end
}

// Start writes configurations, starts every daemon and waits until a broker
// accepts writes.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if entries, err := os.ReadDir(o.Data); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: give another --data directory", o.Data)
	}
	if err := os.MkdirAll(o.Data, 0o755); err != nil {
		return nil, err
	}
	base, err := freePorts(3 * (1 + controllers + replicas))
	if err != nil {
		return nil, err
	}
	c := &Cluster{o: o.withDefaults(), base: base}
	c.add("namesrv", "namesrv")
	for i := range controllers {
		c.add(fmt.Sprintf("controller-%d", i), "controller")
	}
	for i := range replicas {
		c.add(fmt.Sprintf("broker-%d", i), "broker")
	}
	for _, d := range c.daemons {
		if err := os.WriteFile(d.dir+".conf", []byte(c.conf(d)), 0o644); err != nil {
			return nil, err
		}
		if err := c.start(d); err != nil {
			c.Stop()
			return nil, err
		}
	}
	if _, err := c.Master(ctx, 60*time.Second); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) add(name, kind string) {
	c.daemons = append(c.daemons, &daemon{name: name, kind: kind, dir: filepath.Join(c.o.Data, name), port: c.base + 3*len(c.daemons)})
}

func (c *Cluster) of(kind string) []*daemon {
	var out []*daemon
	for _, d := range c.daemons {
		if d.kind == kind {
			out = append(out, d)
		}
	}
	return out
}

func addrs(ds []*daemon, shift int) string {
	var out []string
	for _, d := range ds {
		out = append(out, fmt.Sprintf("127.0.0.1:%d", d.port+shift))
	}
	return strings.Join(out, ";")
}

// Namesrv is the address clients need.
func (c *Cluster) Namesrv() string { return addrs(c.of("namesrv"), 0) }

// conf is a daemon's configuration in RocketMQ's names.
func (c *Cluster) conf(d *daemon) string {
	lines := []string{"bindAddress=127.0.0.1", fmt.Sprintf("listenPort=%d", d.port), fmt.Sprintf("adminPort=%d", d.port+2)}
	put := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch d.kind {
	case "namesrv":
		put("waitSecondsForService=2")
	case "controller":
		var peers []string
		for i, p := range c.of("controller") {
			peers = append(peers, fmt.Sprintf("n%d-127.0.0.1:%d", i, p.port+1))
		}
		put("controllerDLegerSelfId=n%s", strings.TrimPrefix(d.name, "controller-"))
		put("controllerDLegerPeers=%s", strings.Join(peers, ";"))
		put("controllerRPCAddrs=%s", addrs(c.of("controller"), 0))
		put("controllerStorePath=%s", filepath.Join(d.dir, "raft"))
		put("initialiseControllers=true")
		put("scanNotActiveBrokerInterval=%d", scanInterval.Milliseconds())
		put("controllerHeartBeatTimeoutMills=%d", c.o.Heartbeat.Milliseconds())
		put("sessionCloseGraceMillis=%d", c.o.Heartbeat.Milliseconds())
		put("writeLeaseMillis=%d", (c.o.Heartbeat + leaseOver).Milliseconds())
	case "broker":
		put("brokerClusterName=%s", cluster)
		put("brokerName=%s", group)
		put("brokerIP1=127.0.0.1")
		put("haListenPort=%d", d.port+1)
		put("enableControllerMode=true")
		put("controllerAddr=%s", addrs(c.of("controller"), 0))
		put("namesrvAddr=%s", c.Namesrv())
		put("storePathRootDir=%s", filepath.Join(d.dir, "store"))
		put("totalReplicas=%d", replicas)
		put("minInSyncReplicas=%d", minInSync)
		put("mappedFileSizeCommitLog=%d", c.o.Segment)
		put("controllerHeartBeatTimeoutMills=%d", c.o.Heartbeat.Milliseconds())
		put("haMaxTimeSlaveNotCatchup=%d", c.o.Heartbeat.Milliseconds())
		put("checkSyncStateSetPeriod=1000")
		put("writeLeaseMillis=%d", (c.o.Heartbeat + leaseOver).Milliseconds())
		if c.o.Flush != "" {
			put("flushDiskType=%s", c.o.Flush)
		}
		lines = append(lines, c.o.Broker...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// start runs a daemon; its log goes on where the last life's ended.
func (c *Cluster) start(d *daemon) error {
	out, err := os.OpenFile(d.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	d.cmd = exec.Command(c.o.Bin, d.kind, "-c", d.dir+".conf", "--log-format", "json")
	d.cmd.Stderr, d.cmd.Stdout = out, out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // no orphan survives us
	if err := d.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", d.name, err), out.Close())
	}
	done := make(chan struct{})
	cmd := d.cmd
	go func() {
		cmd.Wait() // the exit code is in the process state
		out.Close()
		close(done)
	}()
	d.done = done
	return nil
}

// freePorts finds n consecutive ports on loopback that nobody listens on.
func freePorts(n int) (int, error) {
	for range 200 {
		base := 12_000 + rand.IntN(20_000-n)
		free := true
		for i := 0; i < n && free; i++ {
			ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
			if free = err == nil; free {
				ln.Close() // nothing was accepted on it
			}
		}
		if free {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free consecutive ports", n)
}

// probe asks an admin port.
func (d *daemon) probe(path string) bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", d.port+2, path))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// until polls a condition.
func until(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if holds() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v", what, limit)
		case <-tick.C:
		}
	}
}

// Master waits for the broker that accepts writes.
func (c *Cluster) Master(ctx context.Context, limit time.Duration) (*daemon, error) {
	var found *daemon
	err := until(ctx, limit, "a broker that accepts writes", func() bool {
		for _, d := range c.of("broker") {
			if d.probe("/writable") {
				found = d
				return true
			}
		}
		return false
	})
	return found, err
}

// ready waits until every broker reports ready.
func (c *Cluster) ready(ctx context.Context, limit time.Duration) error {
	return until(ctx, limit, "every broker ready", func() bool {
		for _, d := range c.of("broker") {
			if !d.probe("/readyz") {
				return false
			}
		}
		return true
	})
}

// kill ends a process as kill -9 does.
func (c *Cluster) kill(d *daemon) error {
	if err := d.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill -9 %s: %w", d.name, err)
	}
	<-d.done
	return nil
}

// signal sends SIGSTOP or SIGCONT.
func (c *Cluster) signal(d *daemon, s syscall.Signal) error {
	if err := d.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%v %s: %w", s, d.name, err)
	}
	return nil
}

// Stop ends every daemon: SIGTERM to brokers first, then the rest; whoever does
// not end in time is killed, which is an error.
func (c *Cluster) Stop() error {
	var errs []error
	for _, kind := range []string{"broker", "controller", "namesrv"} {
		ds := c.of(kind)
		for _, d := range ds {
			if d.cmd != nil && d.cmd.Process != nil {
				d.cmd.Process.Signal(syscall.SIGCONT) // a stopped process hears no SIGTERM
				d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
			}
		}
		for _, d := range ds {
			errs = append(errs, c.wait(d))
		}
	}
	return errors.Join(errs...)
}

const stopLimit = 40 * time.Second

func (c *Cluster) wait(d *daemon) error {
	if d.done == nil {
		return nil
	}
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-d.done:
	case <-timer.C:
		d.cmd.Process.Kill() // reported below
		<-d.done
		return fmt.Errorf("%s did not stop within %v of SIGTERM", d.name, stopLimit)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %v after SIGTERM: %s", d.name, d.cmd.ProcessState, lastLine(d.dir+".log"))
	}
	return nil
}

// lastLine is the end of a log, for messages.
func lastLine(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
