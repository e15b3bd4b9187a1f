package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// occupy listens on a port until the test ends or release is called.
func occupy(t *testing.T, port int) (release func()) {
	t.Helper()
	ln, err := net.Listen("tcp", join(localHost, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() }) // released already, in some tests
	return func() { ln.Close() }
}

// TestUpRefusesTakenPorts: a port that somebody listens on is named before any
// process starts, and the directory keeps nothing of the attempt.
func TestUpRefusesTakenPorts(t *testing.T) {
	small := shape{Groups: 1, Replicas: 1, Controllers: 1, Namesrvs: 1}
	base := ports(t, newPlan(small, 1).ports())
	nodes := newPlan(small, base).Nodes
	for what, port := range map[string]int{
		"listenPort of namesrv-0": nodes[0].Port, "raft port of controller-n0": nodes[1].Second, "haListenPort of broker-a-0": nodes[2].Second, "adminPort of broker-a-0": nodes[2].Admin,
	} {
		dir := t.TempDir()
		release := occupy(t, port)
		r := command(t, "up", "--data", dir, "--replicas", "1", "--controllers", "1", "--port-base", fmt.Sprint(base))
		for _, w := range []string{"the " + what + " is taken", join(localHost, port), "--port-base", "--data"} {
			if r.code != 64 || !strings.Contains(r.stderr, w) {
				t.Errorf("%s: code %d, want 64 with %q\n%s", what, r.code, w, r.stderr)
			}
		}
		if strings.Contains(r.stdout, "ready") || strings.Count(r.stderr, "is taken") != 1 {
			t.Errorf("%s: %s%s", what, r.stdout, r.stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, planFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the refused start left a plan (%v)", what, err)
		}
		release()
	}
}

// TestPortsArePinnedOnceReady: until its cluster has taken writes a directory takes
// other ports, with configuration files that follow; afterwards it keeps them.
func TestPortsArePinnedOnceReady(t *testing.T) {
	small := shape{Groups: 1, Replicas: 1, Controllers: 1, Namesrvs: 1}
	dir := t.TempDir()
	open := func(base int) (*plan, error) {
		p, err := openPlan(dir, small, base)
		if err == nil {
			err = p.writeConfs()
		}
		return p, err
	}
	n := newPlan(small, 1).ports()
	block := ports(t, 2*n)
	first, err := open(block)
	if err != nil || first.Nodes[0].Port != block {
		t.Fatalf("%+v, error %v", first, err)
	}
	second, err := open(block + n)
	if err != nil || second.Nodes[0].Port != block+n {
		t.Fatalf("another --port-base before the cluster was ready: %+v, error %v", second, err)
	}
	text, err := os.ReadFile(second.confPath(second.Nodes[0]))
	if err != nil || string(text) != second.confText(second.Nodes[0]) {
		t.Errorf("the configuration has other ports than the plan (error %v):\n%s", err, text)
	}
	release := occupy(t, block+n)
	third, err := open(0)
	if err != nil || third.Nodes[0].Port == block+n {
		t.Fatalf("taken ports are not replaced: %+v, error %v", third, err)
	}
	release()
	if err := third.pin(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(block); err == nil || !strings.Contains(err.Error(), "leave --port-base away") {
		t.Errorf("pinned ports changed: %v", err)
	}
	occupy(t, third.Nodes[2].Admin)
	if _, err := open(0); err == nil || !strings.Contains(err.Error(), "adminPort of broker-a-0 is taken") || !strings.Contains(err.Error(), "stop what listens there") {
		t.Errorf("a pinned port that is taken: %v", err)
	}
}
