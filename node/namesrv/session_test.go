package namesrv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"lockstep/node/wire"
)

// frameOf is a frame as a foreign peer puts it on the wire: JSON header text and
// body.
func frameOf(header, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), body...)
}

// goSession is a recorded conversation of the stock Go client (version 317, JSON
// headers with empty remark and fields, flag 0 throughout) and of a Java broker
// with one name server: the steps of wire contracts 5.2 that concern it.
var goSession = []struct{ who, step, header, body string }{
	{"java broker", "register as role 0", `{"code":103,"extFields":{"brokerAddr":"10.0.0.1:10911","brokerId":"0","brokerName":"broker-a","clusterName":"DefaultCluster","compressed":"false","haServerAddr":"10.0.0.1:10912"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}`,
		`{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"TBW102":{"attributes":{},"order":false,"perm":7,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TBW102","topicSysFlag":0,"writeQueueNums":8},"DefaultCluster":{"order":false,"perm":7,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"DefaultCluster","topicSysFlag":0,"writeQueueNums":16}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}`},
	{"producer", "route of a topic that is not there yet", `{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{"topic":"TestTopic"}}`, ``},
	{"producer", "route of the template", `{"code":105,"language":"GO","version":317,"opaque":2,"flag":0,"remark":"","extFields":{"topic":"TBW102"}}`, ``},
	{"java broker", "register the one topic that the first send created", `{"code":103,"extFields":{"brokerAddr":"10.0.0.1:10911","brokerId":"0","brokerName":"broker-a","clusterName":"DefaultCluster","haServerAddr":"10.0.0.1:10912"},"flag":0,"language":"JAVA","opaque":2,"version":479}`,
		`{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000005},topicConfigTable:{"TestTopic":{"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"TestTopic","writeQueueNums":4}}}}`},
	{"producer", "route refresh", `{"code":105,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"","extFields":{"topic":"TestTopic"}}`, ``},
	{"consumer", "route of its topic", `{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{"topic":"TestTopic"}}`, ``},
	{"consumer", "route of its retry topic, before the heartbeat", `{"code":105,"language":"GO","version":317,"opaque":2,"flag":0,"remark":"","extFields":{"topic":"%RETRY%cg"}}`, ``},
	{"java broker", "register the retry topic", `{"code":103,"extFields":{"brokerAddr":"10.0.0.1:10911","brokerId":"0","brokerName":"broker-a","clusterName":"DefaultCluster","haServerAddr":"10.0.0.1:10912"},"flag":0,"language":"JAVA","opaque":3,"version":479}`,
		`{"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000009},"topicConfigTable":{"%RETRY%cg":{"perm":6,"readQueueNums":1,"topicName":"%RETRY%cg","writeQueueNums":1}}}}`},
	{"consumer", "route of its retry topic again", `{"code":105,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"","extFields":{"topic":"%RETRY%cg"}}`, ``},
	{"admin", "all topics", `{"code":206,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{}}`, ``},
	{"admin", "delete a topic", `{"code":216,"language":"GO","version":317,"opaque":2,"flag":0,"remark":"","extFields":{"topic":"TestTopic"}}`, ``},
	{"admin", "its route is gone", `{"code":105,"language":"GO","version":317,"opaque":3,"flag":0,"remark":null,"extFields":{"topic":"TestTopic"}}`, ``},
	{"java broker", "heartbeat, one-way", `{"code":904,"extFields":{"brokerAddr":"10.0.0.1:10911","brokerId":"0","brokerName":"broker-a","clusterName":"DefaultCluster"},"flag":2,"language":"JAVA","opaque":4,"version":479}`, ``},
	{"java broker", "data version", `{"code":322,"extFields":{"brokerAddr":"10.0.0.1:10911","brokerId":"0","brokerName":"broker-a","clusterName":"DefaultCluster"},"flag":0,"language":"JAVA","opaque":5,"version":479}`, `{"counter":3,"stateVersion":0,"timestamp":1700000000009}`},
	{"java broker", "unregister", `{"code":104,"extFields":{"brokerAddr":"10.0.0.1:10911","brokerId":"0","brokerName":"broker-a","clusterName":"DefaultCluster"},"flag":0,"language":"JAVA","opaque":6,"version":479}`, ``},
	{"producer", "route refresh after the last broker left", `{"code":105,"language":"GO","version":317,"opaque":4,"flag":0,"remark":"","extFields":{"topic":"TBW102"}}`, ``},
}

// TestGoClientSession plays the recorded requests as bytes through the codec and
// compares the bytes of the answers with the golden file.
func TestGoClientSession(t *testing.T) {
	r := newRig(t, nil)
	ids := map[string]int{}
	var out strings.Builder
	for _, step := range goSession {
		if ids[step.who] == 0 {
			ids[step.who] = len(ids) + 1
			r.up(sid(ids[step.who]))
		}
		s := sid(ids[step.who])
		raw := frameOf(step.header, step.body)
		f, n, err := wire.Decode(wire.Remoting, raw)
		if err != nil || n != len(raw) {
			t.Fatalf("%s: %s: decoded %d of %d bytes: %v", step.who, step.step, n, len(raw), err)
		}
		before := len(r.sent[s])
		r.n.Receive(r.now, s, &f)
		r.settle()
		fmt.Fprintf(&out, "%s: %s\n", step.who, step.step)
		for _, answer := range r.sent[s][before:] {
			b, err := wire.AppendFrame(nil, &answer, wire.JSON)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "  %x %s\n", b[:8], b[8:])
		}
		if len(r.sent[s]) == before {
			out.WriteString("  (no answer)\n")
		}
	}
	const file = "testdata/go-client-session.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(out.String())) {
		t.Errorf("answers differ from %s (UPDATE_GOLDEN=1 rewrites it):\n%s", file, out.String())
	}
}
