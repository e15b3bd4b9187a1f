package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/internal/properties"
	"lockstep/node"
	"lockstep/node/broker"
	"lockstep/node/controller"
	"lockstep/node/host"
	"lockstep/node/namesrv"
)

// upFlags are the flags of lockstep up.
type upFlags struct {
	shape
	data     string
	portBase int
	restart  bool
	set      []string
	wait     time.Duration
}

func newUp(*logging) *cobra.Command {
	f := &upFlags{}
	c := &cobra.Command{Use: "up", Short: "Run a whole cluster on this machine", Long: `Run a whole cluster on this machine: each node is a process of its own, with a
configuration file and data below the --data directory, on the loopback address.

It waits until every broker group takes writes, prints the addresses and what to
try next, and stops everything when it gets SIGINT (Ctrl-C) or SIGTERM; a second
one kills. Started again with the same directory it is the same cluster.

A node that dies is reported and stays down, so that you can watch the others; with
--restart it is started again. --set gives a property to every daemon that knows
it, such as --set flushDiskType=ASYNC_FLUSH.`, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return up(cmd.OutOrStdout(), f)
	}}
	c.Flags().IntVar(&f.Groups, "groups", 1, "broker groups")
	c.Flags().IntVar(&f.Replicas, "replicas", 3, "brokers of each group")
	c.Flags().IntVar(&f.Controllers, "controllers", 3, "controllers")
	c.Flags().IntVar(&f.Namesrvs, "namesrvs", 1, "name servers")
	c.Flags().StringVar(&f.data, "data", "lockstep-data", "`DIR`ectory of configuration, data and logs")
	c.Flags().IntVar(&f.portBase, "port-base", 0, "first of the consecutive ports of a new cluster; 0 finds free ones")
	c.Flags().BoolVar(&f.restart, "restart", false, "start nodes that died again")
	c.Flags().StringArrayVar(&f.set, "set", nil, "`KEY=VALUE` for every daemon that knows the key; may be repeated")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long the cluster may take to accept writes")
	return c
}

// optionKeys are the property names that a kind of daemon takes.
func optionKeys(kind string) []string {
	keys := properties.Keys(&process{})
	switch kind {
	case "namesrv":
		o := namesrv.DefaultOptions()
		return append(keys, properties.Keys(&o)...)
	case "controller":
		o := controller.DefaultOptions()
		return append(append(keys, properties.Keys(&o)...), properties.Keys(&controllerStore{})...)
	}
	o := broker.DefaultOptions()
	return append(append(keys, properties.Keys(&o)...), properties.Keys(&brokerPlace{})...)
}

// known reports whether a daemon of the kind takes the override.
func known(kind, set string) bool {
	key, _, _ := strings.Cut(set, "=")
	return slices.Contains(optionKeys(kind), key)
}

func (f *upFlags) check() error {
	errs := []error{f.shape.check()}
	for _, s := range f.set {
		if !strings.Contains(s, "=") {
			errs = append(errs, fmt.Errorf("--set %q is not key=value", s))
		} else if !known("namesrv", s) && !known("controller", s) && !known("broker", s) {
			errs = append(errs, fmt.Errorf("--set %s: no daemon has this property", s))
		}
	}
	if f.portBase < 0 || f.portBase > 65535 {
		errs = append(errs, fmt.Errorf("--port-base %d: 1 to 65535, or 0", f.portBase))
	}
	return errors.Join(errs...)
}

// supervisor runs the processes of a local cluster.
type supervisor struct {
	*upFlags
	plan     *plan
	out      io.Writer
	children []*child
	ended    chan exit
	again    chan *child // to be started again
	clock    host.Clock
	first    firstSignal // asked to stop; zero when something else did
}

func up(out io.Writer, f *upFlags) error {
	if err := f.check(); err != nil {
		return refused(err)
	}
	dir, err := absolute(f.data)
	if err != nil {
		return refused(err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return refused(fmt.Errorf("--data: %w", err))
	}
	lock, err := lockDir(dir)
	if err != nil {
		return refused(err)
	}
	defer lock.Close()
	p, err := openPlan(dir, f.shape, f.portBase)
	if err == nil {
		err = p.writeConfs()
	}
	if err != nil {
		return refused(err)
	}
	s := &supervisor{upFlags: f, plan: p, out: out, ended: make(chan exit, len(p.Nodes)), again: make(chan *child, len(p.Nodes)), clock: host.BootClock()}
	runtime.LockOSThread() // children live as long as the thread that started them
	defer runtime.UnlockOSThread()
	return s.run()
}

// lockDir keeps a second cluster from the directory.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "up.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() // nothing was written to it
		return nil, fmt.Errorf("%s is in use by another lockstep up: stop that one, or give another --data directory", dir)
	}
	return f, nil
}

// run starts everything, waits until it is usable and then for a signal.
func (s *supervisor) run() error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	fmt.Fprintf(s.out, "starting %d processes, data in %s\n", len(s.plan.Nodes), s.plan.dir)
	for _, n := range s.plan.Nodes {
		c := &child{localNode: n, ended: true}
		if err := c.start(s.plan, s.set, s.ended); err != nil {
			return errors.Join(err, s.stop(signals))
		}
		s.children = append(s.children, c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.wait)
	defer cancel()
	usable := make(chan error, 1)
	go func() { usable <- s.awaitUsable(ctx, s.checks()) }()
	for {
		select {
		case err := <-usable:
			if err == nil {
				err = s.plan.pin()
			}
			if err != nil {
				return errors.Join(err, s.stop(signals))
			}
			s.announce()
		case e := <-s.ended:
			if err := s.died(e); err != nil {
				cancel()
				return errors.Join(err, s.stop(signals))
			}
		case c := <-s.again:
			if err := c.start(s.plan, s.set, s.ended); err != nil {
				return errors.Join(err, s.stop(signals))
			}
			fmt.Fprintf(s.out, "%s runs again, pid %d\n", c.Name, c.pid())
		case sig := <-signals:
			cancel()
			s.first = firstSignal{sig, s.clock().Mono}
			fmt.Fprintf(s.out, "\nstopping (%s)\n", sig)
			return s.stop(signals)
		}
	}
}

// restartPause is the time before a node that died is started again.
const restartPause = time.Second

// died reports a node's end. It is an error when the node cannot have another
// one: its configuration or store was refused at its first start.
func (s *supervisor) died(e exit) error {
	e.child.ended = true
	fmt.Fprintln(s.out, e.describe(s.plan))
	code := e.cmd.ProcessState.ExitCode()
	if code == node.ExitRefused && e.starts == 1 {
		return refused(fmt.Errorf("%s cannot start; its log is %s", e.Name, e.logPath(s.plan)))
	}
	if s.restart && code != node.ExitRefused && code != node.ExitSuspect {
		time.AfterFunc(restartPause, func() { s.again <- e.child })
		return nil
	}
	fmt.Fprintf(s.out, "  start it again with: lockstep %s\n", strings.Join(e.args(s.plan, s.set), " "))
	return nil
}

// probePause is the time between two looks at the nodes.
const probePause = 200 * time.Millisecond

// check is one thing to wait for.
type check struct {
	what   string
	reason func(ctx context.Context) string // "" when it holds
	last   string
}

// checks are what makes the cluster usable: every node is ready, and one broker
// of each group takes writes.
func (s *supervisor) checks() []*check {
	var out []*check
	groups := map[string][]*child{}
	for _, c := range s.children {
		out = append(out, &check{what: c.Name + " is ready", reason: func(ctx context.Context) string { return c.probe(ctx, "/readyz") }})
		if c.Kind == "broker" {
			groups[c.Group] = append(groups[c.Group], c)
		}
	}
	for _, c := range s.children {
		members := groups[c.Group]
		if c.Kind != "broker" || members[0] != c {
			continue
		}
		out = append(out, &check{what: c.Group + " takes writes", reason: func(ctx context.Context) string {
			var reasons []string
			for _, m := range members {
				r := m.probe(ctx, "/writable")
				if r == "" {
					return ""
				}
				reasons = append(reasons, m.Name+": "+r)
			}
			return strings.Join(reasons, " | ")
		}})
	}
	return out
}

// awaitUsable returns when all checks hold; it prints each as it does.
func (s *supervisor) awaitUsable(ctx context.Context, open []*check) error {
	tick := time.NewTicker(probePause)
	defer tick.Stop()
	for {
		open = slices.DeleteFunc(open, func(c *check) bool {
			c.last = c.reason(ctx)
			if c.last == "" {
				fmt.Fprintln(s.out, "  "+c.what)
			}
			return c.last == ""
		})
		if len(open) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			var errs []error
			for _, c := range open {
				errs = append(errs, fmt.Errorf("not within %v: %s (%s)", s.wait, c.what, c.last))
			}
			return errors.Join(errs...)
		}
	}
}

// announce prints where everything is and what to try.
func (s *supervisor) announce() {
	namesrvs := strings.Join(s.plan.addrs("namesrv", false), ";")
	fmt.Fprintf(s.out, "\n%-16s %-8s %-16s %-16s %-16s %s\n", "node", "pid", "address", "ha or raft", "admin", "log")
	for _, c := range s.children {
		second := "-"
		if c.Second != 0 {
			second = join(localHost, c.Second)
		}
		fmt.Fprintf(s.out, "%-16s %-8d %-16s %-16s %-16s %s\n", c.Name, c.pid(), join(localHost, c.Port), second, join(localHost, c.Admin), c.logPath(s.plan))
	}
	victim, what := s.firstBroker(), "a broker; sends go on after the election if it was the master"
	fmt.Fprintln(s.out)
	for _, g := range s.groups() {
		m := s.masterOf(g)
		if m == nil {
			fmt.Fprintf(s.out, "master of %s: none at the moment\n", g)
			continue
		}
		fmt.Fprintf(s.out, "master of %s: %s, pid %d\n", g, m.Name, m.pid())
		if g == victim.Group {
			victim, what = m, "the master of "+g+"; sends go on after the election"
		}
	}
	fmt.Fprintf(s.out, `
The cluster is up. Name servers, for RocketMQ clients and the commands below:
  %[1]s

Try:
  lockstep send --namesrv '%[1]s' --topic hello --key k1 'a message'
  lockstep consume --namesrv '%[1]s' --topic hello --count 1
  lockstep status --namesrv '%[1]s' --controller '%[2]s'
  kill -9 %[3]d      # %[6]s
With a stock RocketMQ Go client:
  producer.NewProducer(producer.WithNameServer([]string{"%[4]s"}))
Stop with Ctrl-C. Data stays in %[5]s.
`, namesrvs, strings.Join(s.plan.addrs("controller", false), ";"), victim.pid(), s.plan.addrs("namesrv", false)[0], s.plan.dir, what)
}

// groups are the names of the broker groups.
func (s *supervisor) groups() []string {
	var out []string
	for _, c := range s.children {
		if c.Kind == "broker" && !slices.Contains(out, c.Group) {
			out = append(out, c.Group)
		}
	}
	return out
}

// masterOf is the broker that the controllers have made the master of a group, nil
// when there is none or they do not say.
func (s *supervisor) masterOf(group string) *child {
	info, _, err := replicaInfo(s.plan.addrs("controller", false), group, routeTime)
	if err != nil || info.MasterBrokerID <= 0 {
		return nil
	}
	i := slices.IndexFunc(s.children, func(c *child) bool { return c.Kind == "broker" && join(localHost, c.Port) == info.MasterAddress })
	if i < 0 {
		return nil
	}
	return s.children[i]
}

func (s *supervisor) firstBroker() *child {
	i := slices.IndexFunc(s.children, func(c *child) bool { return c.Kind == "broker" })
	return s.children[i]
}

// stopTime is what each kind of node gets to end after SIGTERM.
const stopTime = 20 * time.Second

// stop ends the brokers first, which need controllers to hand over, then the
// rest. A second signal kills.
func (s *supervisor) stop(signals <-chan os.Signal) error {
	brokers := func(c *child) bool { return c.Kind == "broker" }
	return errors.Join(s.stopSome(signals, brokers), s.stopSome(signals, func(c *child) bool { return !brokers(c) }))
}

func (s *supervisor) stopSome(signals <-chan os.Signal, which func(*child) bool) error {
	left := 0
	all := func(sig syscall.Signal) {
		for _, c := range s.children {
			if which(c) && !c.ended {
				c.signal(sig)
			}
		}
	}
	for _, c := range s.children {
		if which(c) && !c.ended {
			left++
		}
	}
	all(syscall.SIGTERM)
	limit := time.NewTimer(stopTime)
	defer limit.Stop()
	var errs []error
	for left > 0 {
		select {
		case e := <-s.ended:
			e.child.ended = true
			if which(e.child) {
				left--
			}
			if e.err != nil {
				errs = append(errs, errors.New(e.describe(s.plan)))
			}
		case sig := <-signals:
			if !s.first.echo(sig, s.clock().Mono) {
				all(syscall.SIGKILL)
			}
		case <-limit.C:
			errs = append(errs, fmt.Errorf("killing what has not stopped after %v", stopTime))
			all(syscall.SIGKILL)
		}
	}
	return errors.Join(errs...)
}
