package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestReadme runs what the README says to try, in its order, with the addresses of
// this test's cluster in place of those that it names.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, t.TempDir())
	here := strings.NewReplacer("bin/lockstep", binary, "127.0.0.1:26790", c.namesrv(), "127.0.0.1:26792", c.plan.addrs("controller", false)[0])
	want := map[string]string{"send": "", "consume": "hello", "status": "broker-a"}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "bin/lockstep" || words[1] == "up" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "bash", "-c", here.Replace(line)).CombinedOutput()
		if shown, ok := want[words[1]]; err != nil || !ok || !strings.Contains(string(out), shown) {
			t.Errorf("%s%v: %s", line, err, out)
		}
		delete(want, words[1])
	}
	if len(want) > 0 {
		t.Errorf("the README does not say how to use %v", want)
	}
	if !strings.Contains(string(text), "\nbin/lockstep up --port-base 26790 ") || strings.Contains(string(text), "127.0.0.1:9876") {
		t.Error("the README's addresses are not those of the cluster it starts")
	}
	c.signal(syscall.SIGTERM)
	c.ends(0)
}
