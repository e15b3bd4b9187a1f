package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/chaos"
	"lockstep/node/wire"
)

// Options of a run.
type Options struct {
	Bin  string // the lockstep binary
	Self string // the program that runs the baseline's processes
	Data string // empty directory on the disk to be measured
	// Warm and Lasts are how long each load runs before and while it is measured.
	Warm, Lasts time.Duration
	// Messages of the log-growth row, and Sessions of the session row.
	Messages, Sessions int
	// Wanted selects rows by name.
	Wanted func(name string) bool
	// Report is called with each row as it is done.
	Report func(r Row)
	Log    io.Writer
}

// aim is one load and what is wanted of it.
type aim struct {
	load      Load
	perSecond float64
	p99       float64 // milliseconds; 0 is no aim
	async     bool    // measured under ASYNC_FLUSH too
}

// aims are the loads in the order they are run: producers that wait for their
// answer over few and many connections, and eight connections that keep 64 sends
// under way each.
var aims = []aim{
	{Load{"64-over-4", 4, 16}, 15_000, 30, true},
	{Load{"64-over-64", 64, 1}, 8_000, 0, true},
	{Load{"16-over-1", 1, 16}, 8_000, 0, false},
	{Load{"1-over-1", 1, 1}, 1_000, 0, true},
	{Load{"pipelined-8x64", 8, 64}, 45_000, 0, true},
}

const (
	syncFlush  = "SYNC_FLUSH"
	asyncFlush = "ASYNC_FLUSH"
	// segment is the commit log file size of the daemons.
	segment = 256 << 20
	// heartbeat is long: a busy machine must not start elections.
	heartbeat = 15 * time.Second
	startWait = 60 * time.Second
	settle    = 3 * time.Second // idle time before memory is read
)

func sendName(flush, load string) string {
	if flush == asyncFlush {
		return "async." + load
	}
	return "sync." + load
}

// Names are all rows that Run can make.
func Names() []string {
	out := []string{idleName("namesrv"), idleName("controller"), idleName("broker"), sessionsName, logName}
	for _, flush := range []string{syncFlush, asyncFlush} {
		for _, a := range aims {
			if flush == syncFlush || a.async {
				out = append(out, sendName(flush, a.load.Name))
			}
			if flush == syncFlush && a.p99 > 0 {
				out = append(out, sendName(flush, a.load.Name)+".p99")
			}
		}
	}
	return out
}

// Run starts the daemons and the baseline and measures every wanted row.
func Run(ctx context.Context, o Options) error {
	for _, flush := range []string{syncFlush, asyncFlush} {
		wanted := false
		for _, n := range Names() {
			wanted = wanted || o.Wanted(n) && strings.HasPrefix(n, "async.") == (flush == asyncFlush)
		}
		if !wanted {
			continue
		}
		if err := o.under(ctx, flush); err != nil {
			return fmt.Errorf("%s: %w", flush, err)
		}
	}
	return nil
}

// under measures with one flush mode.
func (o Options) under(ctx context.Context, flush string) (err error) {
	dir := filepath.Join(o.Data, strings.ToLower(flush))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	base, err := startServers(ctx, o.Self, dir)
	if err != nil {
		return fmt.Errorf("the baseline: %w", err)
	}
	defer func() { err = errors.Join(err, base.stop()) }()
	c, err := chaos.Start(ctx, chaos.Options{Bin: o.Bin, Data: filepath.Join(dir, "cluster"), Flush: flush, Segment: segment, Heartbeat: heartbeat, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	r := &running{Options: o, cluster: c, base: base, flush: flush}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if flush == syncFlush {
		if err := r.memory(ctx); err != nil {
			return err
		}
	}
	return r.sends(ctx)
}

// running is a cluster under measurement.
type running struct {
	Options
	cluster *chaos.Cluster
	base    *servers
	flush   string
	master  chaos.Process
}

// prepare waits until every broker is in sync and makes the topic.
func (r *running) prepare(ctx context.Context) (err error) {
	if r.master, err = r.cluster.Writable(ctx, startWait); err != nil {
		return err
	}
	brokers := len(r.cluster.Processes("broker"))
	err = chaos.Until(ctx, startWait, "every broker in the SyncStateSet", func() bool {
		n, err := r.master.Gauge(ctx, "lockstep_broker_sync_state_set_size")
		return err == nil && int(n) == brokers
	})
	if err != nil {
		return err
	}
	head := &wire.CreateTopicRequest{Topic: topic, DefaultTopic: "TBW102", ReadQueueNums: queues, WriteQueueNums: queues,
		Perm: wire.PermRead | wire.PermWrite, TopicFilterType: wire.FilterTypeSingleTag}
	f := wire.NewRequest(wire.ReqCreateTopic, 1, head, nil)
	return call(ctx, r.master.Addr, &f)
}

// call sends one request on a connection of its own and wants a success.
func call(ctx context.Context, addr string, f *wire.Frame) error {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second)) // fails on a closed connection only
	raw, err := wire.AppendFrame(nil, f, wire.JSON)
	if err != nil {
		return err
	}
	if _, err := conn.Write(raw); err != nil {
		return err
	}
	d := wire.Decoder{Link: wire.Remoting}
	var in []byte
	part := make([]byte, 4096)
	for {
		n, err := conn.Read(part)
		if err != nil {
			return fmt.Errorf("request %d: %w", f.Head.Code, err)
		}
		in = append(in, part[:n]...)
		answer, used, err := d.DecodeCopy(in)
		switch {
		case err != nil:
			return err
		case used == 0:
		case answer.Head.Code != wire.CodeSuccess:
			return fmt.Errorf("request %d: code %d %s", f.Head.Code, answer.Head.Code, answer.Head.Remark)
		default:
			return nil
		}
	}
}
