package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is one process of a local cluster. Its fields are the supervisor's.
type child struct {
	*localNode
	cmd    *exec.Cmd // nil while it does not run
	log    *os.File
	starts int
	ended  bool
}

// exit is the end of a child's process.
type exit struct {
	*child
	err error
}

// start runs the child. Its log lines go to a file; it is in a process group of
// its own, so that a Ctrl-C reaches only this process, and it gets SIGTERM should
// this process die. The system ties that to the starting thread, which therefore
// must be the caller's for good.
func (c *child) start(p *plan, set []string, ended chan<- exit) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	if c.log == nil {
		if c.log, err = os.OpenFile(c.logPath(p), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640); err != nil {
			return fmt.Errorf("start %s: %w", c.Name, err)
		}
	}
	c.cmd = exec.Command(self, c.args(p, set)...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	c.starts++
	c.ended = false
	cmd := c.cmd
	go func() { ended <- exit{c, cmd.Wait()} }()
	return nil
}

// args is the child's command line, with the overrides its kind takes.
func (c *child) args(p *plan, set []string) []string {
	args := []string{c.Kind, "-c", p.confPath(c.localNode)}
	for _, s := range set {
		if known(c.Kind, s) {
			args = append(args, "--set", s)
		}
	}
	return args
}

func (c *child) logPath(p *plan) string { return filepath.Join(p.dir, c.Name+".log") }

// pid is the process id, for the operator.
func (c *child) pid() int { return c.cmd.Process.Pid }

// signal sends s to the child alone, by its pid.
func (c *child) signal(s syscall.Signal) {
	if !c.ended && c.cmd != nil {
		c.cmd.Process.Signal(s) // fails only when it has just ended
	}
}

// describe says how the child ended, and what it said last: its reason, unless a
// signal cut it off.
func (e exit) describe(p *plan) string {
	how, last := "ended", ": "
	if x, ok := errors.AsType[*exec.ExitError](e.err); ok {
		how = fmt.Sprintf("ended with code %d", x.ExitCode())
		if w, ok := x.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			how, last = "was killed by "+unix.SignalName(w.Signal()), "; the last line of its log is: "
		}
	}
	return e.Name + " " + how + last + e.lastLine(p)
}

// lastLine is the end of a child's log: what it said last.
func (c *child) lastLine(p *plan) string {
	f, err := os.Open(c.logPath(p))
	if err != nil {
		return ""
	}
	defer f.Close()
	const tail = 4 << 10
	if s, err := f.Stat(); err == nil && s.Size() > tail {
		f.Seek(-tail, io.SeekEnd) // the file is longer than that
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// probe asks one of the child's probes; "" means yes, otherwise it says why not.
func (c *child) probe(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+join(localHost, c.Admin)+path, nil)
	if err != nil {
		return err.Error()
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return "does not answer yet"
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, 16<<10))
	switch {
	case err != nil:
		return err.Error()
	case a.StatusCode == http.StatusOK:
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "; ")
}

// probeLimit bounds one probe.
const probeLimit = 3 * time.Second
