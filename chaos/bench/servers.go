package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Hidden verbs of the drill command that run the processes of the baseline.
const (
	VerbFollow = "bench-follow"
	VerbLead   = "bench-lead"
)

// servers are the three processes of the baseline.
type servers struct {
	addr string // of the leader
	cmds []*exec.Cmd
}

// startServers starts two followers and the leader by this program itself.
func startServers(ctx context.Context, self, dir string) (*servers, error) {
	s := &servers{}
	var followers []string
	for i := range 2 {
		addr, err := s.start(ctx, self, VerbFollow, "--file", filepath.Join(dir, fmt.Sprintf("follower-%d", i)))
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		followers = append(followers, addr)
	}
	addr, err := s.start(ctx, self, VerbLead, "--file", filepath.Join(dir, "leader"), "--followers", strings.Join(followers, ","))
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.addr = addr
	return s, nil
}

// start runs one process and waits for the address that it prints.
func (s *servers) start(ctx context.Context, self string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	s.cmds = append(s.cmds, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s said no address: %w", args[0], err)
	}
	return strings.TrimSpace(line), nil
}

// stop kills the processes: they hold nothing of worth.
func (s *servers) stop() error {
	var errs []error
	for _, c := range s.cmds {
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		c.Wait() // killed: its exit code says so
	}
	return errors.Join(errs...)
}
