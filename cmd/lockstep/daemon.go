package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/node"
	"lockstep/node/host"
	"lockstep/node/host/admin"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// process are the settings that every daemon has beside its machine's options.
type process struct {
	// ListenPort is the remoting port.
	ListenPort int `key:"listenPort"`
	// BindAddress is the local address that listeners bind.
	BindAddress string `key:"bindAddress"`
	// AdminPort serves /livez, /readyz, /writable and /metrics: 0 is listenPort +
	// 1000, -1 is off.
	AdminPort int `key:"adminPort"`
	// ServerChannelMaxIdleTimeSeconds closes a remoting session that is silent both
	// ways.
	ServerChannelMaxIdleTimeSeconds time.Duration `key:"serverChannelMaxIdleTimeSeconds" unit:"s"`
}

func (p *process) check(c *conf) {
	c.port("listenPort", p.ListenPort, 1)
	c.port("adminPort", p.AdminPort, -1)
	if p.ServerChannelMaxIdleTimeSeconds < time.Second {
		c.problemf("serverChannelMaxIdleTimeSeconds=%v: at least 1", p.ServerChannelMaxIdleTimeSeconds)
	}
	if net.ParseIP(p.BindAddress) == nil {
		c.problemf("bindAddress=%s is no IP address; 0.0.0.0 binds all", p.BindAddress)
	}
}

// port checks a port number.
func (c *conf) port(key string, port, least int) {
	if port < least || port > 65535 {
		c.problemf("%s=%d is no port: write %d to 65535", key, port, max(least, 1))
	}
}

// adminApart refuses an admin port that is another port of this process.
func (c *conf) adminApart(p *process, others ...ownPort) {
	key, port := "adminPort", p.AdminPort
	if port == 0 {
		key, port = fmt.Sprintf("adminPort (by default listenPort + %d)", defaultAdminDistance), p.ListenPort+defaultAdminDistance
		if p.ListenPort <= 65535 && port > 65535 {
			c.problemf("%s would be %d, which is no port: set adminPort", key, port)
		}
	}
	for _, o := range append(others, ownPort{"listenPort", p.ListenPort}) {
		if o.port == port {
			c.problemf("%s and %s are both %d: give each a port of its own", key, o.key, port)
		}
	}
}

// ownPort is a port of this process with what sets it.
type ownPort struct {
	key  string
	port int
}

// orDefault is the port, or the default where it is none and a complaint says so:
// what derives from it must not be complained about as well.
func orDefault(port, def int) int {
	if port < 1 || port > 65535 {
		return def
	}
	return port
}

// bind is an address on the local address to bind.
func (p *process) bind(port int) string { return join(p.BindAddress, port) }

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// admin is the address of the admin port; "" when it is off.
func (p *process) admin() string {
	switch p.AdminPort {
	case -1:
		return ""
	case 0:
		return p.bind(p.ListenPort + defaultAdminDistance)
	}
	return p.bind(p.AdminPort)
}

// defaultAdminDistance is from the remoting port to the admin port.
const defaultAdminDistance = 1000

// unit is the node that a process runs.
type unit struct {
	name  string
	phase string // what opening does, for /readyz
	admin string // address of the admin port; "" for none
	idle  time.Duration
	open  func() (opened, error)
}

// opened is a machine with what it works on.
type opened struct {
	machine node.Machine
	disk    host.Doer
	close   func() error // releases the disk; nil when there is none
}

// running is a unit on its way from start to end.
type running struct {
	unit
	opened
	port *admin.Port
	node *host.Node
}

// daemon is the command of a kind of daemon.
func daemon(l *logging, kind, short, long string, load func(c *conf, f *confFlags) (unit, []string, error)) *cobra.Command {
	f := &confFlags{}
	c := &cobra.Command{Use: kind + " -c FILE", Short: short, Long: long, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		log, err := l.logger(cmd.ErrOrStderr(), slog.LevelInfo)
		if err != nil {
			return err
		}
		c, err := readConf(kind, f)
		if err != nil {
			return refused(err)
		}
		u, effective, err := load(c, f)
		for _, n := range c.notes {
			log.Warn(n)
		}
		if err != nil {
			return refused(err)
		}
		if f.print {
			for _, line := range effective {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return nil
		}
		return serve(log, u)
	}}
	c.Flags().StringVarP(&f.path, "config", "c", "", "configuration `FILE`, key=value lines with RocketMQ's property names")
	c.Flags().StringArrayVar(&f.set, "set", nil, "override one `KEY=VALUE` of the file; may be repeated")
	c.Flags().BoolVarP(&f.print, "print", "p", false, "print the effective configuration and exit")
	c.Flags().BoolVar(&f.allowUnknown, "allow-unknown", false, "warn about unknown keys instead of refusing to start")
	return c
}

// serve runs a unit until it ends or the process is told to stop. The first
// SIGTERM or SIGINT asks the machine for a graceful end, a second one ends the
// process at once, unless it is the echo of the first.
func serve(log *slog.Logger, u unit) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	stop := make(chan struct{})
	go func() {
		clock := host.BootClock()
		s := <-signals
		first := firstSignal{s, clock().Mono}
		log.Info("stopping", "node", u.name, "signal", s.String())
		close(stop)
		s = first.second(signals, clock)
		log.Warn("stopping at once", "node", u.name, "signal", s.String())
		os.Exit(node.ExitFailed)
	}()
	r := &running{unit: u}
	defer r.end(log)
	if err := r.start(log); err != nil {
		return err
	}
	go watch(log, u.name, r.node)
	select {
	case <-stop: // also when it came while the store was being opened
		r.node.Stop()
	case <-r.node.Done():
	}
	e := r.node.Wait()
	log.Info("ended", "node", u.name, "code", e.Code, "reason", e.Reason)
	if e.Code != node.ExitClean {
		return &exitError{e.Code, fmt.Errorf("%s: %s", u.name, e.Reason)}
	}
	return nil
}

// start opens the store, before any listener of the node is bound, and runs it.
func (r *running) start(log *slog.Logger) error {
	if r.admin != "" {
		var err error
		if r.port, err = admin.Listen(r.admin, r.phase, log); err != nil {
			return refused(fmt.Errorf("%s: %w", r.name, err))
		}
	}
	began := time.Now()
	var err error
	if r.opened, err = r.open(); err != nil {
		return openError(fmt.Errorf("%s: %w", r.name, err))
	}
	r.node, err = host.Start(host.Options{Name: r.name, Machine: r.machine, Disk: r.disk, Idle: r.idle, Log: log})
	if err != nil {
		return refused(fmt.Errorf("%s: %w", r.name, err))
	}
	adminAddr := "off"
	if r.port != nil {
		r.port.Attach(r.node)
		adminAddr = r.port.Addr()
	}
	log.Info("serving", "node", r.name, "addrs", r.node.Addrs(), "admin", adminAddr, "opened", time.Since(began).Round(time.Millisecond))
	return nil
}

// openError gives the exit code of a store that did not open: restarting helps
// against a full disk or an I/O error, not against anything else.
func openError(err error) error {
	switch {
	case errors.Is(err, storage.ErrFailed):
		return &exitError{node.ExitSuspect, err}
	case errors.Is(err, storage.ErrDiskFull), errors.Is(err, vfs.ErrIO), errors.Is(err, vfs.ErrNoSpace):
		return &exitError{node.ExitFailed, err}
	}
	return refused(err)
}

// end releases what a unit holds; its node has ended or never ran.
func (r *running) end(log *slog.Logger) {
	if r.node != nil {
		r.node.Wait()
	}
	var errs []error
	if r.port != nil {
		errs = append(errs, r.port.Close())
	}
	if r.close != nil {
		errs = append(errs, r.close())
	}
	if err := errors.Join(errs...); err != nil {
		log.Error("close", "node", r.name, "error", err)
	}
}
