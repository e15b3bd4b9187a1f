package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockstep/internal/properties"
)

// The files of RocketMQ's documentation, shortened to what is required here.
func brokerLines(dir string, more ...string) []string {
	return append([]string{"brokerName=broker-a", "brokerIP1=127.0.0.1", "controllerAddr=127.0.0.1:9878", "storePathRootDir=" + dir}, more...)
}

func controllerLines(dir string, more ...string) []string {
	return append([]string{"controllerDLegerSelfId=n0", "controllerStorePath=" + dir}, more...)
}

const (
	threeRaft  = "controllerDLegerPeers=n0-127.0.0.1:9881;n1-127.0.0.1:9882;n2-127.0.0.1:9883"
	threeAddrs = "controllerRPCAddrs=127.0.0.1:9871;127.0.0.1:9872;127.0.0.1:9873"
)

// TestRefusedConfigurations: what can never work is refused with the name of the
// thing and the remedy, before anything is opened.
func TestRefusedConfigurations(t *testing.T) {
	dir := t.TempDir()
	three := []string{threeRaft, threeAddrs}
	cases := []struct {
		name, kind string
		lines      []string
		want       []string
	}{
		{"unknown key", "broker", brokerLines(dir, "brokerIp1=1.2.3.4"), []string{"daemon.conf:5: unknown key brokerIp1", "did you mean brokerIP1?", "--allow-unknown"}},
		{"unknown without a guess", "namesrv", []string{"flyingSaucers=3"}, []string{"unknown key flyingSaucers; correct it"}},
		{"twice", "broker", brokerLines(dir, "brokerName=broker-b"), []string{"brokerName is \"broker-b\" here and \"broker-a\" in line 1"}},
		{"no separator", "namesrv", []string{"listenPort 9876"}, []string{"is not key=value"}},
		{"bad number", "broker", brokerLines(dir, "listenPort=many"), []string{"listenPort=many", "whole number"}},
		{"bad port", "namesrv", []string{"listenPort=70000"}, []string{"listenPort=70000 is no port"}},
		{"bad address to bind", "namesrv", []string{"bindAddress=eth0"}, []string{"bindAddress=eth0 is no IP address"}},
		{"bad duration", "broker", brokerLines(dir, "slaveTimeout=soon"), []string{"slaveTimeout=soon", "milliseconds"}},
		{"no name", "broker", []string{"controllerAddr=127.0.0.1:9878"}, []string{"brokerName is empty"}},
		{"a path as a name", "broker", []string{"brokerName=broker z/..", "controllerAddr=127.0.0.1:9878", "storePathRootDir=" + dir}, []string{"brokerName \"broker z/..\": use 1 to 127 of letters, digits"}},
		{"cluster with a blank", "broker", brokerLines(dir, "brokerClusterName=my cluster"), []string{"brokerClusterName \"my cluster\": use 1 to 127"}},
		{"an address that is none", "broker", []string{"brokerName=broker-a", "brokerIP1=999.1.1.1", "controllerAddr=127.0.0.1:9878", "storePathRootDir=" + dir}, []string{"brokerAddr \"999.1.1.1:10911\" is nothing clients can dial: set brokerIP1"}},
		{"a controller that is none", "broker", brokerLines(dir, "namesrvAddr=10.0.0:9876"), []string{"namesrvAddr \"10.0.0:9876\" is not host:port"}},
		{"admin port of its own", "broker", brokerLines(dir, "adminPort=10912"), []string{"adminPort and haListenPort are both 10912"}},
		{"admin port beyond the ports", "namesrv", []string{"listenPort=65000"}, []string{"adminPort (by default listenPort + 1000) would be 66000"}},
		{"admin port of the controller", "controller", controllerLines(dir, threeRaft, threeAddrs, "adminPort=9881"), []string{"adminPort and the raft port in controllerDLegerPeers are both 9881"}},
		{"admin port by default", "broker", brokerLines(dir, "listenPort=9912"), []string{"adminPort (by default listenPort + 1000) and haListenPort are both 10912"}},
		{"negative hours", "broker", brokerLines(dir, "fileReservedTime=-1"), []string{"a plain number is hours"}},
		{"a lease of a day", "broker", brokerLines(dir, "writeLeaseMillis=99999999"), []string{"writeLeaseMillis 27h46m39.999s is above 1h0m0s"}},
		{"no controllers", "broker", []string{"brokerName=broker-a"}, []string{"controllerAddr is empty: list the controllers' broker-facing addresses"}},
		{"several faults at once", "broker", brokerLines(dir, "listenPort=0", "totalReplicas=0", "nonsense=1"), []string{"listenPort=0", "totalReplicas 0", "unknown key nonsense"}},
		{"floor above the replicas", "broker", brokerLines(dir, "totalReplicas=2", "minInSyncReplicas=3"), []string{"minInSyncReplicas 3 is above totalReplicas 2", "lower the floor or add replicas"}},
		{"count above the replicas", "broker", brokerLines(dir, "allAckInSyncStateSet=false", "inSyncReplicas=4"), []string{"inSyncReplicas 4 is not in 1..totalReplicas 3"}},
		{"lease shorter than an election", "broker", brokerLines(dir, "writeLeaseMillis=2000"), []string{"writeLeaseMillis 2s is too short", "controller election"}},
		{"contradictory role", "broker", brokerLines(dir, "brokerRole=ASYNC_MASTER", "allAckInSyncStateSet=true"), []string{"ASYNC_MASTER contradicts allAckInSyncStateSet=true"}},
		{"slave by configuration", "broker", brokerLines(dir, "brokerRole=SLAVE"), []string{"brokerRole=SLAVE: the controllers decide who is master"}},
		{"classic mode", "broker", brokerLines(dir, "enableControllerMode=false"), []string{"enableControllerMode=false", "set it to true"}},
		{"dledger log", "broker", brokerLines(dir, "enableDLegerCommitLog=true"), []string{"enableDLegerCommitLog=true", "remove the line"}},
		{"log elsewhere", "broker", brokerLines(dir, "storePathCommitLog=/elsewhere"), []string{"storePathCommitLog=/elsewhere: the commit log is at " + dir + "/commitlog"}},
		{"access control", "broker", brokerLines(dir, "aclEnable=true"), []string{"aclEnable=true: this version has no access control"}},
		{"one port twice", "broker", brokerLines(dir, "listenPort=10912"), []string{"replication needs a port of its own (haListenPort)"}},
		{"own address as controller", "broker", brokerLines(dir, "listenPort=9878"), []string{"controllerAddr 127.0.0.1:9878 is this broker's own address"}},
		{"odd consume queue files", "broker", brokerLines(dir, "mappedFileSizeConsumeQueue=4001"), []string{"not a multiple of 20"}},
		{"consume queue files of nothing", "broker", brokerLines(dir, "mappedFileSizeConsumeQueue=0"), []string{"mappedFileSizeConsumeQueue=0 is not a multiple of 20 above 0"}},
		{"store in the working directory", "broker", []string{"brokerName=broker-a", "controllerAddr=127.0.0.1:9878", "storePathRootDir="}, []string{"storePathRootDir is empty"}},
		{"TLS that is not there", "broker", brokerLines(dir, "useTLS=true"), []string{"useTLS=true: this version has no TLS"}},
		{"not UTF-8", "broker", brokerLines(dir, "regionId=\xff\xfe"), []string{":", "is not UTF-8"}},
		{"tiny segments", "broker", brokerLines(dir, "mappedFileSizeCommitLog=100"), []string{"mappedFileSizeCommitLog 100"}},

		{"no peers", "controller", controllerLines(dir), []string{"controllerDLegerPeers is missing"}},
		{"no broker-facing list", "controller", controllerLines(dir, threeRaft), []string{"controllerRPCAddrs is missing"}},
		{"no directory", "controller", []string{"controllerDLegerSelfId=n0", threeRaft, threeAddrs}, []string{"controllerStorePath is missing"}},
		{"raft address for brokers", "controller", controllerLines(dir, threeRaft, "controllerRPCAddrs=127.0.0.1:9881;127.0.0.1:9872;127.0.0.1:9873"), []string{"127.0.0.1:9881 is both the", "controllers and brokers need ports of their own"}},
		{"a raft address that is none", "controller", controllerLines(dir, "controllerDLegerPeers=n0-127.0.0.1:9881;n1-127.0.0.256:9882;n2-127.0.0.1:9883", threeAddrs), []string{"raft address \"127.0.0.256:9882\" of controller n1 is not host:port"}},
		{"a lease of hours", "controller", controllerLines(dir, append(three, "writeLeaseMillis=9999999")...), []string{"writeLeaseMillis 2h46m39.999s is above 1h0m0s"}},
		{"an even number", "controller", controllerLines(dir, "controllerDLegerPeers=n0-127.0.0.1:9881;n1-127.0.0.1:9882", "controllerRPCAddrs=127.0.0.1:9871;127.0.0.1:9872"), []string{"lists 2 controllers", "survives no more failures than 1"}},
		{"never a quorum: one address for two", "controller", controllerLines(dir, "controllerDLegerPeers=n0-127.0.0.1:9881;n1-127.0.0.1:9881;n2-127.0.0.1:9881", threeAddrs), []string{"127.0.0.1:9881 is both the raft address of n0 and the raft address of n1"}},
		{"one id twice", "controller", controllerLines(dir, "controllerDLegerPeers=n0-127.0.0.1:9881;n0-127.0.0.1:9882;n2-127.0.0.1:9883", threeAddrs), []string{"controller id n0 is listed twice"}},
		{"lists of different length", "controller", controllerLines(dir, threeRaft, "controllerRPCAddrs=127.0.0.1:9871"), []string{"lists 3 controllers and controllerRPCAddrs 1 addresses"}},
		{"two spellings that differ", "controller", controllerLines(dir, append(three, "controllerPeers=n0-127.0.0.1:1;n1-127.0.0.1:2;n2-127.0.0.1:3")...), []string{"controllerPeers=", "contradicts controllerDLegerPeers="}},
		{"not among the peers", "controller", append([]string{"controllerDLegerSelfId=n7", "controllerStorePath=" + dir}, three...), []string{"controllerDLegerSelfId \"n7\" is not among the peers"}},
		{"another port than the list", "controller", controllerLines(dir, append(three, "listenPort=1234")...), []string{"listenPort=1234 contradicts controllerRPCAddrs, which gives this controller 127.0.0.1:9871"}},
		{"lease shorter than a controller election", "controller", controllerLines(dir, append(three, "writeLeaseMillis=3000")...), []string{"writeLeaseMillis 3s", "raise writeLeaseMillis"}},
		{"unknown store", "controller", controllerLines(dir, append(three, "controllerStore=tape")...), []string{"controllerStore \"tape\" is unknown: use file, pebble or memory"}},
		{"memory by accident", "controller", controllerLines(dir, append(three, "controllerStore=memory")...), []string{"unsafe"}},
		{"group lease", "controller", controllerLines(dir, append(three, "writeLeaseGroups=broker-a:off")...), []string{"writeLeaseGroups: \"broker-a:off\" is not group=required"}},

		{"controller inside", "namesrv", []string{"enableControllerInNamesrv=true"}, []string{"run lockstep controller beside the name server"}},
	}
	for _, c := range cases {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			r := command(t, c.kind, "-c", write(t, c.lines...))
			if r.code != 64 || r.stdout != "" {
				t.Errorf("code %d, stdout %q; want 64 and nothing", r.code, r.stdout)
			}
			for _, w := range c.want {
				if !strings.Contains(r.stderr, w) {
					t.Errorf("no %q in\n%s", w, r.stderr)
				}
			}
			if strings.Contains(r.stderr, "listenPort=0") && strings.Contains(r.stderr, "Addr ") {
				t.Errorf("the address that the port is part of was complained about too:\n%s", r.stderr)
			}
			if strings.Contains(r.stderr, "lists 0 controllers") {
				t.Errorf("a list that could not be read was counted:\n%s", r.stderr)
			}
		})
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the refused daemons left %v in their directory (error %v)", names, err)
	}
}

func TestCommandLines(t *testing.T) {
	occupied := write(t, "a file")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"broker"}, 64, "give one with -c FILE"},
		{[]string{"broker", "-c", "/nowhere/broker.conf"}, 64, "/nowhere/broker.conf: no such file"},
		{[]string{"broker", "--bogus"}, 64, "unknown flag: --bogus"},
		{[]string{"brokre"}, 64, "unknown command"},
		{[]string{"broker", "-c", "x", "extra"}, 64, "unknown command \"extra\""},
		{[]string{"broker", "-c", write(t, brokerLines("/x")...), "--set", "listenPort"}, 64, "is not key=value"},
		{[]string{"namesrv", "--log-format", "xml", "-c", "x"}, 64, "write text or json"},
		{[]string{"namesrv", "--log-level", "loud", "-c", "x"}, 64, "write debug, info, warn or error"},
		{[]string{"send", "x", "--topic", "t"}, 64, "no name server"},
		{[]string{"send", "x", "-n", "127.0.0.1:1"}, 64, "\"topic\" not set"},
		{[]string{"send", "x", "-n", "127.0.0.1", "-t", "t"}, 64, "is not host:port"},
		{[]string{"consume", "-n", "127.0.0.1:1", "-t", "t", "--from", "middle"}, 64, "write first or last"},
		{[]string{"send", "x", "-n", "127.0.0.1:1", "-t", "t", "--timeout", "300ms"}, 1, "1 of 1 messages were not acknowledged"},
		{[]string{"consume", "-n", "127.0.0.1:1", "-t", "t", "--count", "1", "--timeout", "300ms"}, 1, "0 messages came of topic t: ask the name servers for it: 127.0.0.1:1"},
		{[]string{"status"}, 64, "no controller"},
		{[]string{"status", "--controller", "127.0.0.1:1"}, 64, "no group"},
		{[]string{"status", "--controller", "127.0.0.1:1", "--group", "g"}, 1, "ask the controllers: 127.0.0.1:1"},
		{[]string{"up", "--replicas", "0", "--controllers", "2"}, 64, "--replicas 0: 1 to 9\nlockstep: --controllers 2: an even number"},
		{[]string{"up", "--controllers", "0"}, 64, "--controllers 0: 1 to 9\n"},
		{[]string{"controller", "-c", write(t, controllerLines(occupied, "controllerDLegerPeers=n0-127.0.0.1:9881", "controllerRPCAddrs=127.0.0.1:9871", "adminPort=-1")...)}, 64, "controllerStorePath " + occupied + " is no directory"},
		{[]string{"up", "--set", "flyingSaucers=1"}, 64, "no daemon has this property"},
		{[]string{"up", "--port-base", "65530", "--data", t.TempDir()}, 64, "would be above 65535"},
	} {
		r := command(t, c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "than -1") {
			t.Errorf("%v: code %d, want %d with %q:\n%s", c.args, r.code, c.code, c.want, r.stderr)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--help", "lockstep up"}, {"broker --help", "controllerAddr=10.0.0.1:9878"}, {"controller --help", "initialiseControllers=true"},
		{"namesrv --help", "listenPort=9876"}, {"up --help", "--restart"}, {"completion bash", "__start_lockstep"}, {"completion zsh", "#compdef lockstep"},
	} {
		if r := command(t, strings.Fields(c.args)...); r.code != 0 || !strings.Contains(r.stdout, c.want) {
			t.Errorf("%s: code %d, want %q in\n%.2000s", c.args, r.code, c.want, r.stdout)
		}
	}
}

// -p prints what is in force, as a file that gives the same again; keys without
// effect are named.
func TestPrintedConfigurationReadsBack(t *testing.T) {
	t.Setenv("NAMESRV_ADDR", "127.0.0.1:9876")
	for kind, lines := range map[string][]string{
		"broker": brokerLines("/data/store", "fileReservedTime=48", "slaveTimeout=1500", "flushDiskType=ASYNC_FLUSH", "brokerRole=ASYNC_MASTER",
			"sendMessageThreadPoolNums=16", "deleteWhen=04", "brokerId=0", "enableControllerMode=true", "serverChannelMaxIdleTimeSeconds=60"),
		"controller": controllerLines("/data/raft", threeRaft, "controllerRPCAddrs=127.0.0.1:9871,127.0.0.1:9872,127.0.0.1:9873", "controllerHeartBeatTimeoutMills=3000", "controllerThreadPoolNums=3"),
		"namesrv":    {"waitSecondsForService=10", "clusterTest=false"},
	} {
		first := command(t, kind, "-p", "-c", write(t, lines...))
		if first.code != 0 {
			t.Fatalf("%s: code %d\n%s", kind, first.code, first.stderr)
		}
		again := command(t, kind, "-p", "-c", write(t, strings.Split(first.stdout, "\n")...))
		if again.stdout != first.stdout || again.code != 0 {
			t.Errorf("%s: printed\n%s\nread back as\n%s%s", kind, first.stdout, again.stdout, again.stderr)
		}
		if strings.Contains(again.stderr, "without effect") {
			t.Errorf("%s prints keys without effect:\n%s", kind, again.stderr)
		}
		for want, where := range map[string]string{
			"broker:fileReservedTime=48\n": first.stdout, "broker:slaveTimeout=1500\n": first.stdout, "broker:allAckInSyncStateSet=false\n": first.stdout,
			"broker:namesrvAddr=127.0.0.1:9876\n":                                                   first.stdout,
			"broker:RocketMQ's keys without effect here: deleteWhen, sendMessageThreadPoolNums":     first.stderr,
			"broker:brokerId=0 has no effect: in controller mode the controllers assign broker ids": first.stderr,
			"controller:listenPort=9871\n":                                                          first.stdout,
			"controller:RocketMQ's keys without effect here: controllerThreadPoolNums":              first.stderr,
			"namesrv:waitSecondsForService=10\n":                                                    first.stdout,
			"namesrv:RocketMQ's keys without effect here: clusterTest":                              first.stderr,
		} {
			if of, text, _ := strings.Cut(want, ":"); of == kind && !strings.Contains(where, text) {
				t.Errorf("%s: no %q in\n%s", kind, text, where)
			}
		}
	}
	ineffective := command(t, "broker", "-p", "-c", write(t, brokerLines("/x", "inSyncReplicas=5")...))
	if ineffective.code != 0 || !strings.Contains(ineffective.stderr, "inSyncReplicas=5 has no effect") {
		t.Errorf("code %d\n%s", ineffective.code, ineffective.stderr)
	}
	for kind, lines := range map[string][]string{"broker": brokerLines("/x"), "controller": controllerLines("/x", threeRaft, threeAddrs)} {
		for ms, warned := range map[string]bool{"60000": false, "60001": true} {
			r := command(t, kind, "-p", "-c", write(t, lines...), "--set", "writeLeaseMillis="+ms)
			if r.code != 0 || strings.Contains(r.stderr, "replaced only after its lease") != warned {
				t.Errorf("%s, writeLeaseMillis=%s: code %d\n%s", kind, ms, r.code, r.stderr)
			}
		}
	}
	for _, set := range []string{"minInSyncReplicas=0", "totalReplicas=3"} {
		r := command(t, "broker", "-p", "-c", write(t, brokerLines("/x", set)...))
		said := strings.Contains(r.stderr, "minInSyncReplicas=0 means the default, the smaller of 2 and totalReplicas: 2")
		if r.code != 0 || !strings.Contains(r.stdout, "\nminInSyncReplicas=2\n") || said != (set == "minInSyncReplicas=0") {
			t.Errorf("%s: code %d\n%s%s", set, r.code, r.stdout, r.stderr)
		}
	}
	unknown := command(t, "broker", "-p", "--allow-unknown", "-c", write(t, brokerLines("/x", "flyingSaucers=3")...))
	if unknown.code != 0 || !strings.Contains(unknown.stderr, "flyingSaucers is unknown and has no effect") {
		t.Errorf("code %d\n%s", unknown.code, unknown.stderr)
	}
}

// Every key that RocketMQ's tables spell and ours take is the same property.
func TestKeyTables(t *testing.T) {
	for _, kind := range []string{"broker", "controller", "namesrv"} {
		c := conf{kind: kind}
		java, err := c.java()
		if err != nil || len(java) < 80 {
			t.Fatalf("%s: %d keys, error %v", kind, len(java), err)
		}
		seen := map[string]bool{}
		for _, k := range java {
			if seen[k] || strings.TrimSpace(k) != k {
				t.Errorf("%s: key %q twice or with blanks", kind, k)
			}
			seen[k] = true
		}
		for _, k := range optionKeys(kind) {
			for j := range seen {
				if j != k && strings.EqualFold(j, k) {
					t.Errorf("%s: %s is spelt %s by RocketMQ", kind, k, j)
				}
			}
		}
	}
}

// Short heartbeats for tests pass every check on both sides.
func TestShortTimersAreValid(t *testing.T) {
	dir := t.TempDir()
	args := func(kind string) []string {
		var out []string
		for _, s := range shortTimers {
			if known(kind, s) {
				out = append(out, "--set", s)
			}
		}
		return out
	}
	b := command(t, append([]string{"broker", "-p", "-c", write(t, brokerLines(dir)...)}, args("broker")...)...)
	c := command(t, append([]string{"controller", "-p", "-c", write(t, controllerLines(dir, threeRaft, threeAddrs)...)}, args("controller")...)...)
	if b.code != 0 || c.code != 0 {
		t.Errorf("broker %d, controller %d\n%s%s", b.code, c.code, b.stderr, c.stderr)
	}
}

func TestUnknownKeyOfEveryDaemonIsNear(t *testing.T) {
	c := conf{kind: "broker", known: properties.Keys(&process{})}
	java, err := c.java()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"listenport": "listenPort", "brokerNmae": "brokerName", "flushDiskTyp": "flushDiskType", "x": ""} {
		got := c.near(key, java)
		if want == "" && got != "" || want != "" && got != " (did you mean "+want+"?)" {
			t.Errorf("%s: %q, want %s", key, got, want)
		}
	}
}

// Ports that are taken, and one store for two brokers.
func TestTaken(t *testing.T) {
	base := ports(t, 8)
	ln, err := net.Listen("tcp", join("127.0.0.1", base))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := func(i int) string { _, p, _ := net.SplitHostPort(join("", base+i)); return p }
	dir := t.TempDir()
	broker := func(store string, more ...string) []string {
		return append(brokerLines(store, "bindAddress=127.0.0.1", "mappedFileSizeCommitLog=1048576", "adminPort="+port(7)), more...)
	}
	raft := []string{"controllerDLegerPeers=n0-127.0.0.1:" + port(0), "controllerRPCAddrs=127.0.0.1:" + port(1), "adminPort=" + port(2)}
	for _, c := range []struct {
		kind  string
		lines []string
		want  []string
	}{
		{"namesrv", []string{"bindAddress=127.0.0.1", "listenPort=" + port(0), "adminPort=" + port(1)}, []string{"listen for remoting on 127.0.0.1:" + port(0), "address already in use", "another process uses the port"}},
		{"namesrv", []string{"bindAddress=127.0.0.1", "listenPort=" + port(1), "adminPort=" + port(0)}, []string{"listen for probes on 127.0.0.1:" + port(0), "adminPort sets the port"}},
		{"broker", broker(filepath.Join(dir, "a"), "listenPort="+port(0), "haListenPort="+port(1)), []string{"broker-a@127.0.0.1:" + port(0), "listen for remoting"}},
		{"broker", broker(filepath.Join(dir, "a"), "listenPort="+port(1), "haListenPort="+port(0)), []string{"listen for replication on 127.0.0.1:" + port(0)}},
		{"controller", controllerLines(filepath.Join(dir, "c"), raft...), []string{"controller n0: listen for raft on 127.0.0.1:" + port(0)}},
	} {
		r := command(t, c.kind, "-c", write(t, c.lines...))
		if r.code != 64 {
			t.Errorf("%v: code %d\n%s", c.lines, r.code, r.stderr)
		}
		for _, w := range c.want {
			if !strings.Contains(r.stderr, w) {
				t.Errorf("no %q in\n%s", w, r.stderr)
			}
		}
	}
	store := filepath.Join(dir, "b")
	owner := launch(t, "broker", "-c", write(t, broker(store, "listenPort="+port(1), "haListenPort="+port(2))...))
	owner.says("serving")
	second := command(t, "broker", "-c", write(t, append(broker(store, "listenPort="+port(3), "haListenPort="+port(4))[:6], "adminPort=-1", "listenPort="+port(3), "haListenPort="+port(4))...))
	for _, w := range []string{"open storePathRootDir " + store, "in use by another process", "stop the other broker"} {
		if second.code != 64 || !strings.Contains(second.stderr, w) {
			t.Errorf("second broker: code %d, want 64 with %q\n%s", second.code, w, second.stderr)
		}
	}
	owner.signal(syscall.SIGTERM)
	owner.ends(0)
	foreign := command(t, "broker", "-c", write(t, broker(store, "brokerClusterName=other", "listenPort="+port(1), "haListenPort="+port(2))...))
	for _, w := range []string{store, "store belongs to somebody else", "DefaultCluster", "other"} {
		if foreign.code != 64 || !strings.Contains(foreign.stderr, w) {
			t.Errorf("foreign store: code %d, want 64 with %q\n%s", foreign.code, w, foreign.stderr)
		}
	}
}

// One raft log for two controllers, and one controller's log for another.
func TestControllerStoreTaken(t *testing.T) {
	base := ports(t, 6)
	store := filepath.Join(t.TempDir(), "raft")
	lines := func(id string, at int) []string {
		return []string{"controllerDLegerSelfId=" + id, "controllerStorePath=" + store, "bindAddress=127.0.0.1", "adminPort=-1",
			"controllerDLegerPeers=" + id + "-" + join("127.0.0.1", base+at), "controllerRPCAddrs=" + join("127.0.0.1", base+at+1)}
	}
	owner := launch(t, "controller", "-c", write(t, lines("n0", 0)...))
	owner.says("LeaderChanged")
	second := command(t, "controller", "-c", write(t, lines("n0", 2)...))
	for _, w := range []string{"open controllerStorePath " + store, "in use"} {
		if second.code != 64 || !strings.Contains(second.stderr, w) {
			t.Errorf("second controller: code %d, want 64 with %q\n%s", second.code, w, second.stderr)
		}
	}
	owner.signal(syscall.SIGTERM)
	owner.ends(0)
	other := command(t, "controller", "-c", write(t, lines("n1", 4)...))
	for _, w := range []string{`belongs to controller "n0", this is "n1"`, "controllerStorePath"} {
		if other.code != 64 || !strings.Contains(other.stderr, w) {
			t.Errorf("another controller: code %d, want 64 with %q\n%s", other.code, w, other.stderr)
		}
	}
}

// The product knows neither its simulator nor its judges.
func TestProductLinksNoTestbed(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 100 {
		t.Fatalf("only %d packages", len(deps))
	}
	for _, d := range deps {
		for _, banned := range []string{"lockstep/sim", "lockstep/netsim", "lockstep/checker", "lockstep/scenarios", "github.com/anishathalye", "testing"} {
			if d == banned || strings.HasPrefix(d, banned+"/") {
				t.Errorf("the product links %s", d)
			}
		}
	}
}
