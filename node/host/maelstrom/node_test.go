package maelstrom

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/prng"
)

// keysOf lists the keys of an answer besides its type.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestProfile: the timers obey the product's own start-up rules for every size of a
// group, and the bounds that Maelstrom sets.
func TestProfile(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for _, scale := range []int{1, 3} {
			if err := DefaultProfile(scale).Validate(n); err != nil {
				t.Errorf("%d nodes: %v", n, err)
			}
			if least := DefaultProfile(scale).brokerOptions(0, n).MinInSyncReplicas; 2*least <= n {
				t.Errorf("%d nodes: a set of %d can lie outside of a majority", n, least)
			}
		}
	}
	p := DefaultProfile(1)
	// A master that is gone is replaced, at worst, when its lease, its silence and a scan
	// are over and a new leader of the controllers was found first.
	if worst := max(p.Lease, p.BrokerSilence) + p.Scan + 2*time.Duration(p.ElectionTicks)*p.Tick; worst > 5*time.Second {
		t.Errorf("a failover may take %v, more than half of a cut", worst)
	}
	if p.Answer >= 5*time.Second || p.AnswerRegister >= time.Second {
		t.Error("answers come after the clients have given up")
	}
	p.Lease = time.Second
	if err := p.Validate(3); err == nil || !strings.Contains(err.Error(), "writeLeaseMillis") {
		t.Errorf("a short lease: %v", err)
	}
	if s := DefaultProfile(1).String(); !strings.Contains(s, "lease 3.2s") || strings.Contains(s, "\n") {
		t.Errorf("%q", s)
	}
}

// TestOneNode: every workload on one node, with exactly the keys of the contract.
func TestOneNode(t *testing.T) {
	r := newRouter(t, 1)
	for _, c := range []struct{ body, want string }{
		{`"type":"echo","echo":{"a":[1,"x"]}`, `{"echo":{"a":[1,"x"]},"type":"echo_ok"}`},
		{`"type":"topology","topology":{"n0":[]}`, `{"type":"topology_ok"}`},
		{`"type":"read"`, `{"messages":[],"type":"read_ok"}`},
		{`"type":"broadcast","message":9007199254740993`, `{"type":"broadcast_ok"}`},
		{`"type":"broadcast","message":9007199254740993`, `{"type":"broadcast_ok"}`},
		{`"type":"read"`, `{"messages":[9007199254740993],"type":"read_ok"}`},
		{`"type":"poll","offsets":{}`, `{"msgs":{},"type":"poll_ok"}`},
		{`"type":"poll","offsets":{"7":0}`, `{"msgs":{},"type":"poll_ok"}`},
		{`"type":"send","key":"7","msg":1`, `{"offset":0,"type":"send_ok"}`},
		{`"type":"send","key":"7","msg":9007199254740993`, `{"offset":1,"type":"send_ok"}`},
		{`"type":"send","key":"8","msg":1`, `{"offset":0,"type":"send_ok"}`},
		{`"type":"send","key":"007","msg":"text"`, `{"offset":0,"type":"send_ok"}`},
		{`"type":"poll","offsets":{"7":0,"8":0,"007":0,"9":0,"x":3}`, `{"msgs":{"007":[[0,"text"]],"7":[[0,1],[1,9007199254740993]],"8":[[0,1]]},"type":"poll_ok"}`},
		{`"type":"poll","offsets":{"7":1,"8":1}`, `{"msgs":{"7":[[1,9007199254740993]]},"type":"poll_ok"}`},
		{`"type":"poll","offsets":{"7":1000000}`, `{"msgs":{},"type":"poll_ok"}`},
		{`"type":"list_committed_offsets","keys":["7","9"]`, `{"offsets":{},"type":"list_committed_offsets_ok"}`},
		{`"type":"commit_offsets","offsets":{}`, `{"type":"commit_offsets_ok"}`},
		{`"type":"commit_offsets","offsets":{"7":1,"8":0}`, `{"type":"commit_offsets_ok"}`},
		{`"type":"list_committed_offsets","keys":["7","8","9","7"]`, `{"offsets":{"7":1,"8":0},"type":"list_committed_offsets_ok"}`},
		{`"type":"write","key":0,"value":3`, `{"type":"write_ok"}`},
		{`"type":"read","key":0`, `{"type":"read_ok","value":3}`},
		{`"type":"cas","key":0,"from":3,"to":9007199254740993`, `{"type":"cas_ok"}`},
		{`"type":"read","key":0`, `{"type":"read_ok","value":9007199254740993}`},
	} {
		want := strings.TrimSuffix(strings.SplitAfter(c.want, `"type":"`)[1], `"}`)
		want, _, _ = strings.Cut(want, `"`)
		if got := text(r.must("n0", c.body, want, 10*time.Second)); got != c.want {
			t.Errorf("{%s}: %s, want %s", c.body, got, c.want)
		}
	}
	seen := map[string]bool{}
	for range 50 {
		id := text(r.must("n0", `"type":"generate"`, "generate_ok", time.Second)["id"])
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
	}
	r.kill("n0")
	r.start("n0")
	if id := text(r.must("n0", `"type":"generate"`, "generate_ok", time.Second)["id"]); seen[id] {
		t.Errorf("%s twice, in two lives", id)
	}
	if got := text(r.must("n0", `"type":"read"`, "read_ok", time.Second)); got != `{"messages":[9007199254740993],"type":"read_ok"}` {
		t.Errorf("after a restart: %s", got)
	}
}

// TestRefusals: requests that make no sense get the contract's code, at once, and
// the node goes on.
func TestRefusals(t *testing.T) {
	r := newRouter(t, 1)
	r.must("n0", `"type":"send","key":"1","msg":1`, "send_ok", 10*time.Second)
	r.must("n0", `"type":"write","key":1,"value":1`, "write_ok", 10*time.Second)
	long, deep := strings.Repeat("k", 300), strings.Repeat("[", maxDepth+1)+strings.Repeat("]", maxDepth+1)
	for _, c := range []struct {
		body string
		code int
	}{
		{`"type":"send"`, 12}, {`"type":"send","key":"1"`, 12}, {`"type":"send","msg":1`, 12}, {`"type":"send","key":1,"msg":1`, 12},
		{`"type":"send","key":"","msg":1`, 12}, {`"type":"send","key":"` + long + `","msg":1`, 12}, {`"type":"send","key":null,"msg":1`, 12},
		{`"type":"poll"`, 12}, {`"type":"poll","offsets":[1]`, 12}, {`"type":"poll","offsets":{"1":"x"}`, 12}, {`"type":"poll","offsets":{"1":-1}`, 12},
		{`"type":"poll","offsets":{"1":1e30}`, 12}, {`"type":"poll","offsets":{"1":1.5}`, 12}, {`"type":"poll","offsets":{"1":9223372036854775807}`, 12},
		{`"type":"commit_offsets"`, 12}, {`"type":"commit_offsets","offsets":7`, 12},
		{`"type":"commit_offsets","offsets":{"1":99}`, 13}, {`"type":"commit_offsets","offsets":{"55555":0}`, 13},
		{`"type":"list_committed_offsets"`, 12}, {`"type":"list_committed_offsets","keys":{"a":1}`, 12}, {`"type":"list_committed_offsets","keys":[1]`, 12},
		{`"type":"write","key":1`, 12}, {`"type":"write","value":1`, 12}, {`"type":"write","key":null,"value":1`, 12},
		{`"type":"write","key":1,"value":"` + long + `"`, 12}, {`"type":"write","key":"` + long + `","value":1`, 12},
		{`"type":"cas","key":1,"from":1`, 12}, {`"type":"cas","key":1,"to":1`, 12}, {`"type":"cas","key":"never","from":1,"to":2`, 20},
		{`"type":"cas","key":1,"from":2,"to":3`, 22}, {`"type":"read","key":"never"`, 20}, {`"type":"read","key":null`, 12},
		{`"type":"broadcast"`, 12}, {`"type":"topology"`, 12}, {`"type":"topology","topology":[1]`, 12}, {`"type":"topology","topology":{"n0":"n1"}`, 12},
		{`"type":"echo"`, 12}, {`"type":"fly"`, 10}, {`"type":"gossip","values":[1]`, 10}, {`"type":"link","data":"AAAA"`, 10}, {`"type":"gossip_ok"`, 10},
		{`"type":"init","node_id":"n0","node_ids":["n0"]`, 12}, {`"type":7`, 12},
		{`"type":"poll","offsets":{"1":null}`, 12}, {`"type":"commit_offsets","offsets":{"1":null}`, 12}, {`"type":"poll","offsets":{"1":1e400}`, 12},
		{`"type":"commit_offsets","offsets":{"1":9223372036854775808}`, 12}, {`"type":"list_committed_offsets","keys":[null]`, 12},
		{`"type":"send","key":"1","msg":` + deep, 12}, {`"type":"write","key":1,"value":` + deep, 12}, {`"type":"broadcast","message":` + deep, 12},
		{`"type":"send","key":"1","msg":"` + strings.Repeat("x", 20<<20) + `"`, 12},
	} {
		b, err := r.ask("n0", c.body)
		if err != nil || b["type"] != "error" || fmt.Sprint(b["code"]) != fmt.Sprint(c.code) || len(b) != 3 {
			t.Errorf("{%.80s}: %v, %v, want error %d", c.body, b, err, c.code)
		}
	}
	p := r.nodes["n0"]
	for _, line := range []string{
		"no JSON\n", "{}\n", "[]\n", "\n", `{"src":"n0","dest":"n0","body":{"type":"link","data":"AAAA"}}` + "\n",
		`{"src":"c1","dest":"n0","body":{"type":"send","key":"1","msg":2}}` + "\n", `{"src":"c1","dest":"n0","body":{"type":"error","code":13,"msg_id":5}}` + "\n",
		`{"src":"c1","dest":"n0","body":{"type":"link","data":7}}` + "\n", `{"src":"c1","dest":"n0","body":{"type":"echo_ok","in_reply_to":1,"msg_id":5}}` + "\n",
	} {
		p.in <- line
	}
	if got := text(r.must("n0", `"type":"poll","offsets":{"1":0}`, "poll_ok", time.Second)); got != `{"msgs":{"1":[[0,1]]},"type":"poll_ok"}` {
		t.Errorf("after all: %s", got)
	}
}

// TestManyKeys: the last requests of a fast run name all of its keys, far more than
// fit in one batch.
func TestManyKeys(t *testing.T) {
	r := newRouter(t, 1)
	for _, key := range []string{"0", "4999"} {
		r.must("n0", `"type":"send","key":"`+key+`","msg":1`, "send_ok", 10*time.Second)
	}
	var keys, offsets []string
	for k := range 5000 {
		keys, offsets = append(keys, fmt.Sprintf(`"%d"`, k)), append(offsets, fmt.Sprintf(`"%d":0`, k))
	}
	for range 4 { // one of four reads the master, the others the replica
		if got := text(r.must("n0", `"type":"poll","offsets":{`+strings.Join(offsets, ",")+`}`, "poll_ok", time.Second)["msgs"]); got != `{"0":[[0,1]],"4999":[[0,1]]}` {
			t.Errorf("polled %s", got)
		}
	}
	r.must("n0", `"type":"commit_offsets","offsets":{"4999":0}`, "commit_offsets_ok", time.Second)
	if got := text(r.must("n0", `"type":"list_committed_offsets","keys":[`+strings.Join(keys, ",")+`]`, "list_committed_offsets_ok", time.Second)["offsets"]); got != `{"4999":0}` {
		t.Errorf("committed %s", got)
	}
}

// TestDepth: brackets in texts do not count, and those beside each other count once.
func TestDepth(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2) }
	for text, want := range map[string]bool{
		`1`: false, nested(maxDepth): false, nested(maxDepth + 2): true, `["` + strings.Repeat(`[\"`, 200) + `"]`: false,
		`[` + strings.Repeat("[],", 200) + `[]]`: false, `"\\"` + strings.Repeat("[", maxDepth+1): true,
	} {
		if tooDeep([]byte(text)) != want {
			t.Errorf("%.60s: %t", text, !want)
		}
	}
}

// patience is how long a majority may take no request after a cut: a master is
// replaced within five seconds (TestProfile), the leader of the controllers may go with
// it and a vote be split, and then a second replica has to be in the set again.
const patience = 10 * time.Second

// TestGroup: three nodes serve each other's messages, offsets and registers; the
// master is cut off, the rest goes on, nothing acknowledged is lost, and the node
// that was cut off catches up; then all are killed and start again with their folders.
func TestGroup(t *testing.T) { synctest.Test(t, testGroup) }

func testGroup(t *testing.T) {
	r := newRouter(t, 3)
	r.latency = 2 * time.Millisecond
	r.must("n1", `"type":"write","key":5,"value":0`, "write_ok", 20*time.Second)
	r.must("n0", `"type":"send","key":"1","msg":0`, "send_ok", 20*time.Second)
	acked := map[int]int{0: 0} // message → offset
	next := 1
	send := func(node string, limit time.Duration) {
		t.Helper()
		var hasty failures
		for end := time.Now().Add(limit); ; {
			m, asked := next, time.Now()
			next++
			b, err := r.ask(node, fmt.Sprintf(`"type":"send","key":"1","msg":%d`, m))
			if err == nil && b["type"] == "send_ok" {
				var off int
				fmt.Sscan(fmt.Sprint(b["offset"]), &off)
				acked[m] = off
				return
			}
			if hasty.note(asked) || time.Now().After(end) {
				t.Fatalf("%s takes no send: %v, %v\n%s", node, b, err, r.reports())
			}
		}
	}
	for i := range 30 {
		send(r.names[i%3], time.Second)
	}
	r.must("n2", `"type":"commit_offsets","offsets":{"1":20}`, "commit_offsets_ok", time.Second)
	messages := r.between.Load()
	for i := range 60 {
		send(r.names[i%3], time.Second)
	}
	t.Logf("%d server messages for 60 sends in turn", r.between.Load()-messages)

	for _, name := range r.names {
		r.isolate(name) // one of the three is the master, another leads the controllers
		others := []string{"n0", "n1", "n2"}
		for _, n := range others {
			if n != name {
				send(n, patience)
				r.must(n, `"type":"write","key":5,"value":"`+name+`"`, "write_ok", patience)
			}
		}
		if b, err := r.ask(name, `"type":"read","key":5`); err == nil && b["type"] == "read_ok" {
			t.Errorf("%s, cut off, read a register: %v", name, b)
		}
		r.heal()
		send(name, patience)
		if got := text(r.must(name, `"type":"read","key":5`, "read_ok", patience)["value"]); got != `"`+name+`"` {
			t.Errorf("%s reads %s after it was cut off", name, got)
		}
	}
	check := func(when string) {
		t.Helper()
		for _, name := range r.names {
			seen := map[string]int{}
			for from := 0; ; {
				b := r.must(name, fmt.Sprintf(`"type":"poll","offsets":{"1":%d}`, from), "poll_ok", patience)
				list, _ := b["msgs"].(map[string]any)["1"].([]any)
				if len(list) == 0 {
					break
				}
				for _, x := range list {
					pair := x.([]any)
					fmt.Sscan(fmt.Sprint(pair[0]), &from)
					if old, twice := seen[fmt.Sprint(pair[1])]; twice {
						t.Errorf("%s, %s: message %v at %d and %d", when, name, pair[1], old, from)
					}
					seen[fmt.Sprint(pair[1])] = from
				}
				from++
			}
			for m, off := range acked {
				if got, ok := seen[fmt.Sprint(m)]; !ok || got != off {
					t.Errorf("%s, %s: message %d, acknowledged at %d, is at %d (%t)", when, name, m, off, got, ok)
				}
			}
			if got := text(r.must(name, `"type":"list_committed_offsets","keys":["1"]`, "list_committed_offsets_ok", patience)["offsets"]); got != `{"1":20}` {
				t.Errorf("%s, %s: committed offsets %s", when, name, got)
			}
		}
	}
	check("after the cuts")
	for _, name := range r.names {
		r.kill(name)
	}
	for _, name := range r.names {
		r.start(name)
	}
	send("n1", patience)
	check("after the restart")
	if got := text(r.must("n0", `"type":"read","key":5`, "read_ok", patience)["value"]); got != `"n2"` {
		t.Errorf("the register is %s after the restart", got)
	}
}

// TestCuts: whichever node of three, or two of five, is cut off, again and again and
// some before the last cut is digested, the others take messages within patience.
func TestCuts(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testCuts(t, 3+2*int(seed%2), prng.New(seed)) })
		})
	}
}

func testCuts(t *testing.T, nodes int, rand *prng.Source) {
	r := newRouter(t, nodes)
	r.latency, r.jitter = 20*time.Millisecond, prng.New(rand.Uint64())         // its own: the router draws in other goroutines
	r.must("n0", `"type":"send","key":"1","msg":0`, "send_ok", 20*time.Second) // the group has formed
	<-time.After(2 * time.Second)                                              // and every replica is in the set
	next := 1
	for range 30 {
		left := slices.Clone(r.names)
		for range nodes / 2 {
			i := int(rand.Uint64() % uint64(len(left)))
			r.isolate(left[i])
			left = slices.Delete(left, i, i+1)
		}
		if rand.Uint64()%3 > 0 {
			for _, name := range left {
				r.must(name, fmt.Sprintf(`"type":"send","key":"1","msg":%d`, next), "send_ok", patience)
				next++
			}
		} else {
			<-time.After(time.Duration(rand.Uint64()%3000) * time.Millisecond)
		}
		r.heal()
		<-time.After(time.Duration(rand.Uint64()%2000) * time.Millisecond)
	}
	for _, name := range r.names {
		r.must(name, fmt.Sprintf(`"type":"send","key":"1","msg":%d`, next), "send_ok", patience)
		next++
	}
}

// TestBroadcastCut: values said on both sides of a cut are everywhere soon after it.
func TestBroadcastCut(t *testing.T) {
	r := newRouter(t, 4)
	topology := `"type":"topology","topology":{"n0":["n1"],"n1":["n0","n2","zz"],"n2":["n1","n3"],"n3":["n2"]}`
	for _, n := range r.names {
		r.must(n, topology, "topology_ok", time.Second)
	}
	r.isolate("n1")
	for i := range 200 {
		r.must(r.names[i%4], fmt.Sprintf(`"type":"broadcast","message":%d`, i), "broadcast_ok", time.Second)
	}
	before := r.between.Load()
	r.heal()
	for _, n := range r.names {
		for end := time.Now().Add(5 * time.Second); ; {
			got := len(r.must(n, `"type":"read"`, "read_ok", time.Second)["messages"].([]any))
			if got == 200 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s has %d of 200", n, got)
			}
		}
	}
	if n := r.between.Load() - before; n > 60 {
		t.Errorf("%d messages for one exchange", n)
	}
}

// TestManyNodes: more nodes than a group may have serve what needs no group, and
// say so where one is needed.
func TestManyNodes(t *testing.T) {
	r := newRouter(t, 20)
	r.must("n3", `"type":"broadcast","message":1`, "broadcast_ok", time.Second)
	for _, n := range r.names {
		for end := time.Now().Add(10 * time.Second); text(r.must(n, `"type":"read"`, "read_ok", time.Second)["messages"]) != "[1]"; {
			if time.Now().After(end) {
				t.Fatalf("%s does not learn the value", n)
			}
		}
	}
	for _, body := range []string{`"type":"send","key":"1","msg":1`, `"type":"read","key":1`} {
		if b, err := r.ask("n7", body); err != nil || fmt.Sprint(b["code"]) != "10" || !strings.Contains(fmt.Sprint(b["text"]), "at most 16") {
			t.Errorf("{%s}: %v, %v", body, b, err)
		}
	}
}

// TestFolder: a life's number rises, a folder in use is refused, damage is named,
// and folders of harnesses that are gone are removed while those that run stay.
func TestFolder(t *testing.T) {
	run := t.TempDir()
	a, err := openFolder(run, "n0")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	b, err := openFolder(run, "n0")
	if err != nil || b.life <= a.life {
		t.Fatalf("life %d after %d: %v", b.life, a.life, err)
	}
	if _, err := openFolder(run, "n0"); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a folder in use: %v", err)
	}
	if err := os.WriteFile(b.file("life"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.close()
	if _, err := openFolder(run, "n0"); err == nil || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("a damaged number: %v", err)
	}
	for _, name := range []string{"", "..", "a/b"} {
		if _, err := openFolder(run, name); err == nil {
			t.Errorf("a node named %q has a folder", name)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	mine, err := RunFolder()
	if err != nil {
		t.Fatal(err)
	}
	gone := strings.TrimSuffix(mine, mine[strings.LastIndex(mine, "/"):]) + "/1-99-deadbeef"
	for _, dir := range []string{mine, gone, gone + "x-y"} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := RunFolder(); err != nil || again != mine {
		t.Errorf("%s, then %s: %v", mine, again, err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error("the folder of a harness that runs was removed")
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the folder of a harness that is gone stays")
	}
}

// BenchmarkKafka is the speed of sends and polls, half of each, by many clients.
func BenchmarkKafka(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			r := newRouter(b, nodes)
			for _, n := range r.names {
				r.must(n, `"type":"send","key":"0","msg":0`, "send_ok", 20*time.Second)
			}
			before := r.between.Load()
			b.ResetTimer()
			var work sync.WaitGroup
			const clients = 64
			for c := range clients {
				work.Go(func() {
					node := r.names[c%nodes]
					for i := c; i < b.N; i += clients {
						body, want := fmt.Sprintf(`"type":"send","key":"%d","msg":%d`, i/32%1000, i), "send_ok"
						if i/clients%2 == 1 {
							body, want = fmt.Sprintf(`"type":"poll","offsets":{"%d":0}`, i/32%1000), "poll_ok"
						}
						if a, err := r.ask(node, body); err != nil || a["type"] != want {
							b.Errorf("%v, %v", a, err)
						}
					}
				})
			}
			work.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(r.between.Load()-before)/float64(b.N), "servermsgs/op")
		})
	}
}
