package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// shortTimers make a failover a matter of seconds, with all checks of the daemons
// satisfied.
var shortTimers = []string{
	"controllerHeartBeatTimeoutMills=3000", "brokerHeartbeatInterval=300", "scanNotActiveBrokerInterval=300", "sessionCloseGraceMillis=1500",
	"writeLeaseMillis=4000", "writeLeaseMarginMillis=300", "haMaxTimeSlaveNotCatchup=3000", "checkSyncStateSetPeriod=500",
	"syncBrokerMetadataPeriod=500", "redialPauseMillis=100", "registerNameServerPeriod=1000", "haSendHeartbeatInterval=500",
	"haHousekeepingInterval=3000", "firstElectionWaitMillis=1000", "waitSecondsForService=1", "mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=20000",
}

// cluster is a running lockstep up.
type cluster struct {
	*daemonProcess
	plan plan
}

func startCluster(t *testing.T, dir string, args ...string) *cluster {
	t.Helper()
	all := append([]string{"up", "--data", dir}, args...)
	for _, s := range shortTimers {
		all = append(all, "--set", s)
	}
	c := &cluster{daemonProcess: launch(t, all...)}
	c.says("Stop with Ctrl-C")
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	if err == nil {
		err = json.Unmarshal(text, &c.plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logs(dir)
		}
	})
	return c
}

// logs prints the end of each node's log.
func (c *cluster) logs(dir string) {
	for _, n := range c.plan.Nodes {
		text, err := os.ReadFile(filepath.Join(dir, n.Name+".log"))
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		c.t.Logf("%s:\n%s", n.Name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

func (c *cluster) namesrv() string { return strings.Join(c.plan.addrs("namesrv", false), ";") }

// pids are the process ids as announced, by node.
func (c *cluster) pid(name string) int {
	c.t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` +(\d+) `).FindStringSubmatch(c.text())
	if m == nil {
		c.t.Fatalf("no pid of %s in\n%s", name, c.text())
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

func (c *cluster) kill(name string, s syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(c.pid(name), s); err != nil {
		c.t.Fatalf("signal %s: %v", name, err)
	}
}

// send sends numbered messages with a prefix and wants each acknowledged.
func (c *cluster) send(prefix string, count int) {
	c.t.Helper()
	r := command(c.t, "send", "-n", c.namesrv(), "-t", "orders", "--key", prefix+"%d", "--count", fmt.Sprint(count), "--timeout", "50s", "body of "+prefix+"%d "+strings.Repeat(".", 2000))
	if ok := strings.Count(r.stdout, "SEND_OK key="+prefix); r.code != 0 || ok != count {
		c.t.Fatalf("%d of %d acknowledged, code %d\n%s%s", ok, count, r.code, r.stdout, r.stderr)
	}
}

// consume reads until it has seen every numbered message of the prefixes.
func (c *cluster) consume(total int, prefixes ...string) {
	c.t.Helper()
	r := command(c.t, "consume", "-n", c.namesrv(), "-t", "orders", "--count", fmt.Sprint(total*len(prefixes)), "--timeout", "50s")
	if r.code != 0 {
		c.t.Fatalf("consume: code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(r.stdout) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 || !strings.HasPrefix(f[3], "body of "+f[2]+" ") {
			c.t.Fatalf("line %.100q", line)
		}
		seen[f[2]] = true
	}
	for _, p := range prefixes {
		for i := range total {
			if key := p + strconv.Itoa(i+1); !seen[key] {
				c.t.Errorf("%s was acknowledged and did not come (%d keys came)", key, len(seen))
			}
		}
	}
}

var statusLine = regexp.MustCompile(`(?m)^broker-a +(\d+|none) +(\S+) +(\d+) +(\d+) +\{([\d ]*)\}`)

// master is the committed master's node and the size of its set; "" while there
// is none.
func (c *cluster) master() (name string, set int) {
	c.t.Helper()
	r := command(c.t, "status", "-n", c.namesrv(), "--controller", strings.Join(c.plan.addrs("controller", false), ";"), "--group", "broker-a")
	m := statusLine.FindStringSubmatch(r.stdout)
	if r.code != 0 || m == nil {
		return "", 0
	}
	i := slices.IndexFunc(c.plan.Nodes, func(n *localNode) bool { return join(localHost, n.Port) == m[2] })
	if i < 0 {
		return "", 0
	}
	return c.plan.Nodes[i].Name, len(strings.Fields(m[5]))
}

// consumeInParts: a group goes on behind the last message that was printed, not
// behind the last that was fetched.
func (c *cluster) consumeInParts() {
	c.t.Helper()
	seen := map[string]int{}
	for range 4 {
		r := command(c.t, "consume", "-n", c.namesrv(), "-t", "orders", "-g", "parts", "--count", "25", "--timeout", "20s")
		if r.code != 0 {
			c.t.Fatalf("consume in parts: code %d after %d messages\n%s%s", r.code, len(seen), r.stdout, r.stderr)
		}
		for line := range strings.Lines(r.stdout) {
			seen[strings.Split(line, "\t")[2]]++
		}
	}
	if len(seen) != 100 {
		c.t.Errorf("four times 25 messages of a group were %d different ones", len(seen))
	}
}

// hint is the command line that lockstep up printed for a node that died.
func (c *cluster) hint(name string) []string {
	c.t.Helper()
	var args []string
	until(c.t, "the command that starts "+name+" again is printed", func() bool {
		for line := range strings.Lines(c.text()) {
			if at := strings.Index(line, "start it again with: lockstep "); at >= 0 && strings.Contains(line, name+".conf") {
				args = strings.Fields(line[at+len("start it again with: lockstep "):])
			}
		}
		return args != nil
	})
	return args
}

// TestMasterCrash is the product's main job: a master killed at once under load
// loses no acknowledged message, comes back, and the whole cluster survives a
// restart.
func TestMasterCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startCluster(t, dir, "--set", "handoverTimeoutMillis=1000")
	c.send("before-", 100)
	c.consume(100, "before-")
	c.consumeInParts()
	unknownNames(t, c)
	until(t, "all three are in the set", func() bool { _, set := c.master(); return set == 3 })
	dead, _ := c.master()
	if line := fmt.Sprintf("\nmaster of broker-a: %s, pid %d\n", dead, c.pid(dead)); !strings.Contains(c.text(), line) {
		t.Errorf("up does not say %q:\n%s", line, c.text())
	}
	c.kill(dead, syscall.SIGKILL)
	c.says(dead + " was killed by SIGKILL; the last line of its log is: ")
	c.send("after-", 100)
	if now, _ := c.master(); now == dead || now == "" {
		t.Errorf("master after the kill: %q", now)
	}
	back := launch(t, c.hint(dead)...)
	until(t, "the old master is back in the set", func() bool { _, set := c.master(); return set == 3 })
	c.consume(100, "before-", "after-")
	back.signal(syscall.SIGTERM)
	back.ends(0)
	c.signal(syscall.SIGTERM)
	c.ends(0)

	c = startCluster(t, dir, "--set", "handoverTimeoutMillis=1000")
	c.consume(100, "before-", "after-")
	c.signal(syscall.SIGINT)
	c.ends(0)
	missingSegment(t, dir)
}

// missingSegment takes a file out of the middle of a broker's log.
func missingSegment(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "broker-a-0", "store", "commitlog", "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("segments %v, error %v", files, err)
	}
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	r := command(t, "broker", "-c", filepath.Join(dir, "broker-a-0.conf"), "--set", "mappedFileSizeCommitLog=65536", "--set", "mappedFileSizeConsumeQueue=20000")
	for _, w := range []string{"commit log segment is missing", filepath.Base(files[1])} {
		if r.code != 64 || !strings.Contains(r.stderr, w) {
			t.Errorf("code %d, want 64 with %q\n%s", r.code, w, r.stderr)
		}
	}
}

// TestHandoverAndSecondSignal: SIGTERM makes a master hand over; when the
// controllers cannot answer, a second signal ends it at once. Meanwhile the rest
// of what an operator can get wrong with a running cluster.
func TestHandoverAndSecondSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startCluster(t, dir, "--replicas", "2", "--controllers", "1", "--restart", "--set", "handoverTimeoutMillis=8000")
	again := command(t, "up", "--data", dir, "--replicas", "2", "--controllers", "1")
	if again.code != 64 || !strings.Contains(again.stderr, "in use by another lockstep up") {
		t.Errorf("second up: code %d\n%s", again.code, again.stderr)
	}
	raftAddress(t, c)
	noise(t, c)
	until(t, "both are in the set", func() bool { _, set := c.master(); return set == 2 })
	first, _ := c.master()
	c.kill(first, syscall.SIGTERM)
	c.says(first + " ended: ")
	c.says(first + " runs again")
	until(t, "the other one is master and the first is back", func() bool {
		now, set := c.master()
		return now != first && set == 2
	})
	second, _ := c.master()
	c.kill("controller-n0", syscall.SIGSTOP)
	c.kill(second, syscall.SIGTERM)
	until(t, second+" takes the signal", func() bool { return logged(dir, second, "msg=stopping ") })
	until(t, second+" ends", func() bool { // a signal just behind the first is its echo
		syscall.Kill(c.pid(second), syscall.SIGTERM) // fails once it has ended
		return strings.Contains(c.text(), second+" ended with code 1: ")
	})
	c.kill("controller-n0", syscall.SIGCONT)
	c.says(second + " runs again")
	until(t, "both are in the set again", func() bool { _, set := c.master(); return set == 2 })
	c.signal(syscall.SIGTERM)
	c.ends(0)
	wrong := command(t, "up", "--data", dir)
	if wrong.code != 64 || !strings.Contains(wrong.stderr, "holds a cluster of 1 groups of 2 replicas, 1 controllers and 1 name servers") {
		t.Errorf("another shape: code %d\n%s", wrong.code, wrong.stderr)
	}
}

// unknownNames asks for what does not exist: the tools name it once, with the remedy.
func unknownNames(t *testing.T, c *cluster) {
	t.Helper()
	r := command(t, "status", "--controller", strings.Join(c.plan.addrs("controller", false), ";"), "--group", "nosuch")
	if r.code != 1 || r.stderr != "lockstep: group nosuch: the controllers know no such group: check its name; without --group all groups are shown\n" {
		t.Errorf("status of an unknown group: code %d\n%s", r.code, r.stderr)
	}
	broker, controller := c.plan.addrs("broker", false)[0], c.plan.addrs("controller", false)[0]
	for _, wrong := range [][]string{
		{"send", "-n", broker, "-t", "orders", "--timeout", "300ms", "x"}, {"consume", "-n", controller, "-t", "orders", "--count", "1", "--timeout", "300ms"}, {"status", "-n", broker, "--controller", controller},
		{"status", "--controller", c.namesrv(), "--group", "broker-a"},
	} {
		r := command(t, wrong...)
		kind := "is no name server"
		if wrong[1] == "--controller" {
			kind = "is no controller"
		}
		if r.code != 1 || !strings.Contains(r.stderr, kind) || strings.Contains(r.stdout+r.stderr, "  ") {
			t.Errorf("%v: code %d, want 1 with %q and no two blanks\n%s%s", wrong, r.code, kind, r.stdout, r.stderr)
		}
	}
	r = command(t, "consume", "-n", c.namesrv(), "-t", "nosuch", "--count", "1", "--timeout", "300ms")
	if r.code != 1 || !strings.Contains(r.stderr, "know no topic nosuch: check its name, or create it") || strings.Contains(r.stderr, "context") {
		t.Errorf("an unknown topic: code %d\n%s", r.code, r.stderr)
	}
	r = command(t, "consume", "-n", c.namesrv(), "-t", "orders", "--count", "1000", "--timeout", "300ms")
	if r.code != 1 || !strings.Contains(r.stderr, "of 1000 messages came of topic orders within 300ms") {
		t.Errorf("more than there is: code %d\n%s", r.code, r.stderr)
	}
}

// noise sends what is no request to every port of a cluster. Each stream is closed
// and counted, nothing stays open, and the cluster serves as before.
func noise(t *testing.T, c *cluster) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	pieces := [][]byte{
		random(5000), append([]byte{0, 0, 16, 0}, random(4096)...), append([]byte{22, 3, 1}, random(60)...), {0xff, 0xff, 0xff, 0xff}, {0, 0},
		append([]byte("LSR\x01"), random(200)...), []byte("GET / HTTP/1.1\r\n\r\n"),
		[]byte("\x00\x00\x00\x24\x00\x00\x00\x20{\"code\":10,\"extFields\":null}    "),  // whole, without one required field
		[]byte("\x00\x00\x00\x24\x00\x00\x00\x20{\"code\":\"ten\",\"opaque\":[1,2]}  "), // wrong types
	}
	for _, n := range c.plan.Nodes {
		for _, port := range []int{n.Port, n.Second, n.Admin} {
			for _, p := range pieces {
				if port == 0 {
					continue
				}
				conn, err := net.Dial("tcp", join(localHost, port))
				if err != nil {
					t.Fatalf("%s no longer listens: %v", n.Name, err)
				}
				conn.Write(p) // the other end may have had enough in the middle of it
				conn.Close()
			}
		}
	}
	for _, n := range c.plan.Nodes {
		until(t, n.Name+" has closed and counted them", func() bool {
			code, text := probe(n.Admin, "/metrics")
			m := regexp.MustCompile(`(?m)^lockstep_sessions_rejected_total (\d+)$`).FindStringSubmatch(text)
			o := regexp.MustCompile(`(?m)^lockstep_sessions (\d+)$`).FindStringSubmatch(text)
			if code != 200 || m == nil || o == nil {
				return false
			}
			rejected, err1 := strconv.Atoi(m[1])
			open, err2 := strconv.Atoi(o[1])
			return err1 == nil && err2 == nil && rejected >= 5 && open < 12
		})
	}
	c.send("in-spite-", 3)
}

func logged(dir, name, text string) bool {
	b, err := os.ReadFile(filepath.Join(dir, name+".log"))
	return err == nil && strings.Contains(string(b), text)
}

// raftAddress gives a broker the port between controllers.
func raftAddress(t *testing.T, c *cluster) {
	t.Helper()
	raft := c.plan.addrs("controller", true)[0]
	base := ports(t, 3)
	r := command(t, "broker", "-c", write(t, brokerLines(t.TempDir(), "bindAddress=127.0.0.1", fmt.Sprintf("listenPort=%d", base), fmt.Sprintf("haListenPort=%d", base+1),
		fmt.Sprintf("adminPort=%d", base+2), "mappedFileSizeCommitLog=65536")...), "--set", "controllerAddr="+raft)
	for _, w := range []string{"controllerAddr " + raft + " is a raft address", "controllerRPCAddrs"} {
		if r.code != 64 || !strings.Contains(r.stderr, w) {
			t.Errorf("code %d, want 64 with %q\n%s", r.code, w, r.stderr)
		}
	}
}

// A conf that a node refuses ends the cluster's start with its reason.
func TestUpTellsWhyANodeCannotStart(t *testing.T) {
	r := command(t, "up", "--data", t.TempDir(), "--replicas", "1", "--controllers", "1", "--set", "minInSyncReplicas=2")
	for _, w := range []string{"broker-a-0 ended with code 64: lockstep: broker options: minInSyncReplicas 2 is above totalReplicas 1", "broker-a-0 cannot start"} {
		if r.code != 64 || !strings.Contains(r.stdout+r.stderr, w) {
			t.Errorf("code %d, want 64 with %q\n%s%s", r.code, w, r.stdout, r.stderr)
		}
	}
}

// Each daemon answers its probes and stops cleanly on the first signal.
func TestDaemonProbes(t *testing.T) {
	base := ports(t, 2)
	n := launch(t, "namesrv", "--log-format", "json", "-c", write(t, "bindAddress=127.0.0.1", fmt.Sprintf("listenPort=%d", base), fmt.Sprintf("adminPort=%d", base+1), "waitSecondsForService=3600"))
	n.says(`"msg":"serving"`)
	if code, body := probe(base+1, "/livez"); code != 200 || body != "ok\n" {
		t.Errorf("livez: %d %s", code, body)
	}
	if code, body := probe(base+1, "/readyz"); code != 503 || strings.Count(body, "\n") != 1 {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, body := probe(base+1, "/metrics"); code != 200 || !strings.Contains(body, "lockstep_sessions 0") {
		t.Errorf("metrics: %d %s", code, body)
	}
	n.signal(syscall.SIGTERM)
	n.ends(0)
}

// isRunning reports whether a process has not ended; one that nobody has reaped yet
// has.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// When lockstep up itself is killed, its nodes stop, and the cluster can be
// started again.
func TestUpKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := []string{"--replicas", "1", "--controllers", "1"}
	c := startCluster(t, dir, small...)
	c.send("kept-", 3)
	var pids []int
	for _, n := range c.plan.Nodes {
		pids = append(pids, c.pid(n.Name))
	}
	c.signal(syscall.SIGKILL)
	<-c.done
	until(t, "the nodes stop", func() bool {
		return !slices.ContainsFunc(pids, isRunning)
	})
	again := startCluster(t, dir, small...)
	again.consume(3, "kept-")
	again.signal(syscall.SIGTERM)
	again.ends(0)
}
