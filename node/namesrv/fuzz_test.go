package namesrv

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/node"
	"lockstep/node/wire"
)

func sid(i int) node.SessionID { return node.SessionID(i) }

// fuzzed is a name server with something in it.
func fuzzed(t testing.TB) *rig {
	r := newRig(t, func(o *Options) { o.MaxGroups, o.MaxTopics, o.MaxConfigEntries = 8, 64, 8 })
	r.up(1)
	r.up(2)
	r.mustRegister(1, broker{group: "g", addr: addrX, role: 0, epoch: 3, store: "s", boot: 2})
	r.mustRegister(2, broker{group: "g", addr: addrY, role: 1, epoch: 3})
	return r
}

// FuzzReceive: any frame is answered or dropped, never a panic; an answer with an
// error code means that nothing has changed.
func FuzzReceive(f *testing.F) {
	for _, step := range goSession {
		f.Add(frameOf(step.header, step.body))
	}
	h, body := broker{group: "g", addr: addrX, epoch: 2}.request()
	for i, code := range []int32{wire.ReqRegisterBroker, wire.ReqUnregisterBroker, wire.ReqBrokerHeartbeat, wire.ReqQueryDataVersion, wire.ReqGetMemberGroup,
		wire.ReqPutKV, wire.ReqDeleteKV, wire.ReqGetKVList, wire.ReqWipeWritePerm, wire.ReqAddWritePerm, wire.ReqGetClusterInfo, wire.ReqNamesrvSystemTopics} {
		req := wire.NewRequest(code, int32(i), h, body)
		req.Head.Ext.Set("namespace", "n")
		req.Head.Ext.Set("key", "k")
		b, err := wire.AppendFrame(nil, &req, wire.HeaderEncoding(i%2))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := fuzzed(t)
		for len(raw) > 0 {
			frame, n, err := wire.Decode(wire.Remoting, raw)
			if err != nil || n == 0 {
				return
			}
			raw = raw[n:]
			before, sent := r.n.digest(), len(r.sent[1])
			r.n.Receive(r.now, 1, &frame)
			r.settle()
			got := r.sent[1][sent:]
			answered := !frame.Head.Oneway() && !frame.Head.Response()
			if answered && (len(got) == 0 || got[0].Head.Opaque != frame.Head.Opaque) {
				t.Fatalf("request %+v was not answered: %+v", frame.Head, got)
			}
			if !answered {
				for _, a := range got {
					if a.Head.Response() {
						t.Fatalf("an answer to a frame that wants none: %+v", a.Head)
					}
				}
			}
			if answered && got[0].Head.Code != 0 && r.n.digest() != before {
				t.Fatalf("code %d %q, but the tables changed from\n%s\nto\n%s", got[0].Head.Code, got[0].Head.Remark, before, r.n.digest())
			}
		}
	})
}

// FuzzRegistrationBody: arbitrary registration bodies under a good header.
func FuzzRegistrationBody(f *testing.F) {
	_, body := broker{group: "g", addr: addrX, epoch: 4}.request()
	f.Add(body, uint8(0))
	f.Add([]byte(`{"topicConfigSerializeWrapper":{"dataVersion":{"stateVersion":9},"topicConfigTable":{"A":{"perm":6},"B":{"readQueueNums":"4"}}}}`), uint8(1))
	f.Add([]byte(`{topicConfigSerializeWrapper:{topicConfigTable:{}}}`), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, role uint8) {
		r := fuzzed(t)
		h, _ := broker{group: "g", addr: addrZ, role: int64(role % 4)}.request()
		before := r.n.digest()
		req := wire.NewRequest(wire.ReqRegisterBroker, 1, h, body)
		r.n.Receive(r.now, 1, &req)
		r.settle()
		if last := r.sent[1][len(r.sent[1])-1].Head; (last.Code != 0 || last.Remark != "") && r.n.digest() != before {
			t.Fatalf("%d %q, but the tables changed", last.Code, last.Remark)
		}
	})
}

// TestAnyOrderEndsInTheNewest: brokers of one group each register a few times, in
// rising epochs, on sessions of their own; whatever the order in which the frames
// of different sessions arrive, and whichever old sessions close late, role 0 is
// the holder of the highest epoch that anybody registered with.
func TestAnyOrderEndsInTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, nil)
		const brokers = 3
		epoch := rapid.SliceOfN(rapid.IntRange(0, brokers-1), 1, 8).Draw(t, "masters")
		// queue[b] are broker b's frames in their order: the epochs it led.
		var queue [brokers][]int64
		for i, b := range epoch {
			queue[b] = append(queue[b], int64(i+1))
		}
		session := [brokers]int{}
		next := 1
		for {
			var ready []int
			for b := range queue {
				if len(queue[b]) > 0 {
					ready = append(ready, b)
				}
			}
			if len(ready) == 0 {
				break
			}
			b := rapid.SampledFrom(ready).Draw(t, "next")
			old := session[b]
			if old == 0 || rapid.Bool().Draw(t, "reconnect") {
				session[b] = next
				r.up(sid(next))
				next++
			}
			r.register(sid(session[b]), broker{group: "g", addr: fmt.Sprintf("10.0.0.%d:10911", b+1), role: 0, epoch: queue[b][0]})
			queue[b] = queue[b][1:]
			if old != 0 && old != session[b] && rapid.Bool().Draw(t, "late close") {
				r.down(sid(old))
			}
			r.advance(time.Duration(rapid.IntRange(0, 3).Draw(t, "wait")) * time.Second)
		}
		want := fmt.Sprintf("0=10.0.0.%d", epoch[len(epoch)-1]+1)
		if got := r.route("T", "g"); got != want {
			t.Fatalf("route %q, want %q after masters %v", got, want, epoch)
		}
	})
}

// TestDigestSeesChanges guards the guard: the digest differs after any change.
func TestDigestSeesChanges(t *testing.T) {
	r := fuzzed(t)
	seen := map[string]bool{r.n.digest(): true}
	for _, do := range []func(){
		func() {
			r.register(1, broker{group: "g", addr: addrX, epoch: 3, version: wire.DataVersion{Counter: 9}})
		},
		func() { r.call(1, wire.ReqPutKV, &wire.KVRequest{Namespace: "n", Key: "k", Value: "v"}, nil) },
		func() { r.call(1, wire.ReqDeleteTopicInNamesrv, &wire.DeleteTopicInNamesrvRequest{Topic: "T"}, nil) },
		func() { r.down(2) },
	} {
		do()
		if d := r.n.digest(); seen[d] {
			t.Fatalf("no difference:\n%s", d)
		} else {
			seen[d] = true
		}
	}
}
