package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the built product; every test here runs it as operators do.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lockstep-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "lockstep")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir) // a temporary directory
	os.Exit(code)
}

// patience bounds every wait of these tests; the machine may be busy.
const patience = 60 * time.Second

// result is a finished command.
type result struct {
	code           int
	stdout, stderr string
}

// command runs the binary to its end.
func command(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v: %v\n%s%s", args, errors.Join(err, ctx.Err()), &stdout, &stderr)
	}
	return result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// daemonProcess is a long-running command of the binary.
type daemonProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string // of stdout and stderr
}

// launch starts a command that runs until it is told to stop; the test's end kills
// it.
func launch(t *testing.T, args ...string) *daemonProcess {
	t.Helper()
	d := &daemonProcess{t: t, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	r, w := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = w, w
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			d.mu.Lock()
			d.lines = append(d.lines, s.Text())
			d.mu.Unlock()
		}
	}()
	go func() {
		d.cmd.Wait() // the code is read from ProcessState
		w.Close()
		close(d.done)
	}()
	t.Cleanup(func() {
		d.cmd.Process.Signal(syscall.SIGTERM) // one more than needed at most
		select {
		case <-d.done:
		case <-time.After(patience):
			d.cmd.Process.Kill()
			<-d.done
		}
		if t.Failed() {
			t.Logf("%v:\n%s", args, d.text())
		}
	})
	return d
}

func (d *daemonProcess) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n")
}

// says waits until the process has printed the text.
func (d *daemonProcess) says(text string) {
	d.t.Helper()
	until(d.t, fmt.Sprintf("%v says %q", d.cmd.Args[1:], text), func() bool {
		if strings.Contains(d.text(), text) {
			return true
		}
		select {
		case <-d.done:
			d.t.Fatalf("%v ended with code %d before it said %q:\n%s", d.cmd.Args[1:], d.cmd.ProcessState.ExitCode(), text, d.text())
		default:
		}
		return false
	})
}

// ends waits for the end of the process and wants its code.
func (d *daemonProcess) ends(code int) {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatalf("%v does not end:\n%s", d.cmd.Args[1:], d.text())
	}
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		d.t.Errorf("%v ended with code %d, want %d:\n%s", d.cmd.Args[1:], got, code, d.text())
	}
}

func (d *daemonProcess) signal(s os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// probe asks a probe of a daemon.
func probe(port int, path string) (int, string) {
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// ports reserves n consecutive free ports as lockstep up does.
func ports(t *testing.T, n int) int {
	t.Helper()
	base, err := freeBlock(n)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// write makes a file in a new directory.
func write(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "daemon.conf")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
