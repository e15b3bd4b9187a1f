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

// unit is one node that a process runs.
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

// running is a unit that has started.
type running struct {
	unit
	opened
	port *admin.Port
	node *host.Node
}

// daemon is the command of a kind of daemon.
func daemon(l *logging, kind, short, long string, load func(c *conf, f *confFlags) ([]unit, []string, error)) *cobra.Command {
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
		units, effective, err := load(c, f)
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
		return serve(log, units)
	}}
	c.Flags().StringVarP(&f.path, "config", "c", "", "configuration `FILE`, key=value lines with RocketMQ's property names")
	c.Flags().StringArrayVar(&f.set, "set", nil, "override one `KEY=VALUE` of the file; may be repeated")
	c.Flags().BoolVarP(&f.print, "print", "p", false, "print the effective configuration and exit")
	c.Flags().BoolVar(&f.allowUnknown, "allow-unknown", false, "warn about unknown keys instead of refusing to start")
	return c
}

// serve runs units until one ends or the process is told to stop. The first
// SIGTERM or SIGINT asks the machines for a graceful end, a second one ends the
// process at once.
func serve(log *slog.Logger, units []unit) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	stop := make(chan struct{})
	go func() {
		s := <-signals
		log.Info("stopping", "signal", s.String())
		close(stop)
		s = <-signals
		log.Warn("stopping at once", "signal", s.String())
		os.Exit(node.ExitFailed)
	}()
	var all []*running
	defer func() {
		for _, r := range all {
			r.end(log)
		}
	}()
	for _, u := range units {
		r, err := start(log, u)
		if r != nil {
			all = append(all, r)
		}
		if err != nil {
			stopAll(all)
			return err
		}
		select {
		case <-stop:
			stopAll(all)
			return nil
		default:
		}
	}
	return wait(log, all, stop)
}

// wait returns when every node has ended; the first bad end counts.
func wait(log *slog.Logger, all []*running, stop <-chan struct{}) error {
	ended := make(chan *running, len(all))
	for _, r := range all {
		go func() {
			<-r.node.Done()
			ended <- r
		}()
	}
	var bad error
	for left := len(all); left > 0; {
		select {
		case <-stop:
			stopAll(all)
			stop = nil
		case r := <-ended:
			left--
			e := r.node.Wait()
			log.Info("ended", "node", r.name, "code", e.Code, "reason", e.Reason)
			if e.Code != node.ExitClean && bad == nil {
				bad = &exitError{e.Code, fmt.Errorf("%s: %s", r.name, e.Reason)}
			}
			stopAll(all) // the others share the process's fate
		}
	}
	return bad
}

func stopAll(all []*running) {
	for _, r := range all {
		if r.node != nil {
			r.node.Stop()
		}
	}
}

// start opens a unit's store, before any listener of it is bound, and runs it.
func start(log *slog.Logger, u unit) (*running, error) {
	r := &running{unit: u}
	if u.admin != "" {
		var err error
		if r.port, err = admin.Listen(u.admin, u.phase, log); err != nil {
			return nil, refused(fmt.Errorf("%s: %w", u.name, err))
		}
	}
	began := time.Now()
	o, err := u.open()
	if err != nil {
		return r, openError(fmt.Errorf("%s: %w", u.name, err))
	}
	r.opened = o
	r.node, err = host.Start(host.Options{Name: u.name, Machine: o.machine, Disk: o.disk, Idle: u.idle, Log: log})
	if err != nil {
		return r, refused(fmt.Errorf("%s: %w", u.name, err))
	}
	adminAddr := "off"
	if r.port != nil {
		r.port.Attach(r.node)
		adminAddr = r.port.Addr()
	}
	log.Info("serving", "node", u.name, "addrs", r.node.Addrs(), "admin", adminAddr, "opened", time.Since(began).Round(time.Millisecond))
	return r, nil
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
