package maelstrom

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// node is one node: a name, an inbox and the process that is it at present.
type node struct {
	name   string
	index  int
	o      *Options
	r      *router
	fail   func(error) // ends the run
	folder string      // working folder
	log    string      // file of its stderr

	mu      sync.Mutex
	current *process
	ready   atomic.Bool // init_ok was seen; clients' requests are dropped before
}

// process is one life of a node.
type process struct {
	cmd    *exec.Cmd
	in     *bufio.Writer
	pipe   io.WriteCloser
	killed atomic.Bool // its end is wanted
	ended  chan struct{}
}

// start starts a process and makes it the node's.
func (n *node) start() error {
	if err := os.MkdirAll(n.folder, 0o755); err != nil {
		return fmt.Errorf("folder of %s: %w", n.name, err)
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log of %s: %w", n.name, err)
	}
	cmd := exec.Command(n.o.Bin, n.o.Args...)
	cmd.Dir, cmd.Stderr = n.folder, log
	cmd.Env = append(os.Environ(), n.o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals reach its children too
	cmd.WaitDelay = time.Second
	if n.o.LogStderr {
		cmd.Stderr = io.MultiWriter(log, &prefixed{w: n.o.Log, prefix: n.name + ": "})
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", n.name, err), log.Close())
	}
	p := &process{cmd: cmd, in: bufio.NewWriterSize(in, 1<<16), pipe: in, ended: make(chan struct{})}
	n.mu.Lock()
	n.current = p
	n.mu.Unlock()
	go n.read(p, out, log)
	return nil
}

// read takes lines of stdout to the network until the process ends. Maelstrom
// falls silently deaf on a bad line; this ends the run.
func (n *node) read(p *process, out io.Reader, log io.Closer) {
	defer close(p.ended)
	defer log.Close()
	lines := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := readLine(lines)
		if err != nil {
			if !errors.Is(err, io.EOF) && !p.killed.Load() {
				n.fail(fmt.Errorf("%s: stdout: %w", n.name, err))
			}
			break
		}
		m, err := parseLine(line)
		if err == nil {
			err = n.r.send(m)
		}
		if err != nil {
			n.fail(fmt.Errorf("%s wrote a line that is no message (stdout must hold nothing else): %w: %s", n.name, err, quote(line)))
			break
		}
	}
	if _, err := io.Copy(io.Discard, lines); err != nil && !p.killed.Load() && !errors.Is(err, os.ErrClosed) {
		n.fail(fmt.Errorf("%s: stdout: %w", n.name, err))
	}
	err := n.wait(p)
	if p.killed.Load() {
		return
	}
	status := "exit status 0"
	if err != nil {
		status = err.Error()
	}
	n.fail(fmt.Errorf("%s crashed with %s; its log %s ends with:\n%s", n.name, status, n.log, tail(n.log)))
}

// wait waits for the end of a process whose stdout has ended. One that goes on
// without it can answer nobody: that ends the run, instead of a history in which
// nothing ever succeeds.
func (n *node) wait(p *process) error {
	deaf := time.AfterFunc(endGrace, func() {
		if !p.killed.Load() {
			n.fail(fmt.Errorf("%s closed its stdout and goes on: it can answer nothing; its log %s ends with:\n%s", n.name, n.log, tail(n.log)))
		}
	})
	defer deaf.Stop()
	return p.cmd.Wait()
}

// endGrace is how long after its stdout a process may end.
const endGrace = time.Second

// readLine returns one line with its end; a last line without one was torn.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > MaxLine:
			return nil, fmt.Errorf("a line is longer than %d bytes", MaxLine)
		}
	}
}

// deliver writes a message to the process; false when nobody is there to read it.
// A nil message only flushes. quiet says that nothing else is due now.
func (n *node) deliver(m *Message, quiet bool) bool {
	n.mu.Lock()
	p := n.current
	n.mu.Unlock()
	if p == nil || p.killed.Load() {
		return false
	}
	early := m != nil && isClient(m.Src) && !m.starts && !n.ready.Load()
	if m != nil && !early {
		if _, err := p.in.Write(m.line(nil)); err != nil {
			return false // its end is told by read
		}
	}
	// Also after a message that was dropped: what was written before must not wait.
	flushed := !quiet || p.in.Flush() == nil
	return flushed && !early
}

// kill ends the process with SIGKILL and waits for it.
func (n *node) kill() {
	n.mu.Lock()
	p := n.current
	n.current = nil
	n.mu.Unlock()
	n.ready.Store(false)
	if p == nil {
		return
	}
	p.killed.Store(true)
	n.signal(p, syscall.SIGKILL)
	<-p.ended
}

// pause and resume send SIGSTOP and SIGCONT.
func (n *node) pause(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current == nil {
		return
	}
	what := syscall.SIGCONT
	if on {
		what = syscall.SIGSTOP
	}
	n.signal(n.current, what)
}

func (n *node) signal(p *process, what syscall.Signal) {
	if err := syscall.Kill(-p.cmd.Process.Pid, what); err != nil && !errors.Is(err, syscall.ESRCH) {
		n.fail(fmt.Errorf("%v to %s: %w", what, n.name, err))
	}
}

// alive reports whether the node has a process.
func (n *node) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current != nil
}

// maxTail is how much of a log is shown.
const maxTail = 2000

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > maxTail {
		text = text[len(text)-maxTail:]
	}
	return string(text)
}

// prefixed writes whole lines with a prefix.
type prefixed struct {
	w      io.Writer
	prefix string
	part   []byte
}

// Write implements io.Writer and never fails: what is shown must not end a run.
func (p *prefixed) Write(b []byte) (int, error) {
	p.part = append(p.part, b...)
	for {
		line, rest, ok := strings.Cut(string(p.part), "\n")
		if !ok {
			return len(b), nil
		}
		fmt.Fprintf(p.w, "%s%s\n", p.prefix, line)
		p.part = []byte(rest)
	}
}

func (n *node) place(data string) {
	n.folder, n.log = filepath.Join(data, n.name), filepath.Join(data, n.name+".log")
}
