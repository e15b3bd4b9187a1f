package broker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// bench is one broker with a real store on a memory file system and no other
// node: the controllers' word is given to it directly. Its disk is as fast as it
// is asked, its clock moves when told.
type bench struct {
	t     testing.TB
	b     *Broker
	store *storage.Store
	fs    *vfs.Mem
	now   node.Now
	fx    node.Effects
	epoch ha.MasterEpoch

	held     []storage.Op // issued while stuck
	stuck    bool         // the log lanes do not answer
	answers  map[node.SessionID][]wire.Frame
	events   []event.Event
	opaque   int32
	exit     *node.Exit
	lastRead storage.OpKind
	reads    int
}

// benchOptions are a group of one without a lease.
func benchOptions() Options {
	o := DefaultOptions()
	o.BrokerName, o.Address, o.HAAddress = "broker-a", "10.0.0.1:10911", "10.0.0.1:10912"
	o.ControllerAddr = []string{"10.0.0.100:9878"}
	o.TotalReplicas, o.MinInSyncReplicas = 1, 1
	o.WriteLease = LeaseOff
	o.MappedFileSizeCommitLog = 256 << 10
	return o
}

// newBench starts a fresh broker and makes it master of epoch 1.
func newBench(t testing.TB, o Options) *bench {
	h := &bench{t: t, fs: vfs.NewMem(vfs.MemOptions{})}
	h.open(o)
	h.lead()
	return h
}

// open starts a life on the file system.
func (h *bench) open(o Options) {
	h.t.Helper()
	store, rec, err := storage.Open(h.fs, storage.Options{Cluster: o.BrokerClusterName, Group: o.BrokerName,
		Segment: o.MappedFileSizeCommitLog, RequirePropCRC: true, Entropy: prng.New(7)})
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	rec.Identity.Broker = 1
	h.store = store
	h.answers = map[node.SessionID][]wire.Frame{}
	h.now = node.Now{Mono: h.now.Mono + 1, Wall: 1700000000000}
	if h.b, err = New(o, rec); err != nil {
		h.t.Fatalf("new: %v", err)
	}
	h.exit, h.held, h.stuck = nil, nil, false
	for s := range node.SessionID(9) {
		h.b.SessionUp(h.now, s+1, node.Peer{Addr: fmt.Sprintf("10.0.1.%d:40000", s+1), Local: o.Address})
	}
	h.epoch = max(h.epoch, h.b.highest)
}

// lead makes the broker master of the next epoch.
func (h *bench) lead() {
	h.epoch++
	h.b.believe(view{epoch: h.epoch, setEpoch: ha.SetEpoch(h.epoch), set: ha.NewIDs(1), master: 1, masterAddr: h.b.o.Address, heard: true})
	h.run()
	if !h.b.isMaster() {
		h.t.Fatalf("not master: %s", h.b.role.String())
	}
}

// follow makes another broker master of the next epoch.
func (h *bench) follow() {
	h.epoch++
	h.b.believe(view{epoch: h.epoch, setEpoch: ha.SetEpoch(h.epoch), set: ha.NewIDs(2), master: 2, masterAddr: "10.0.0.2:10911", masterHA: "10.0.0.2:10912", heard: true})
	h.run()
}

// run settles until nothing is left to do now.
func (h *bench) run() {
	h.t.Helper()
	for range 1000 {
		h.fx.Reset()
		h.b.Settle(h.now, &h.fx)
		h.b.CheckInvariants()
		h.collect()
		ops := slices.Clone(h.fx.Disk)
		for _, op := range ops {
			if h.stuck && (op.Lane == storage.LaneLog || op.Lane == storage.LaneSync) {
				h.held = append(h.held, op)
				continue
			}
			if op.Lane == storage.LaneRead {
				h.reads, h.lastRead = h.reads+1, op.Kind
			}
			h.b.DiskDone(h.now, h.store.Do(op))
		}
		if len(ops) == 0 && (h.exit != nil || h.b.Deadline() > h.now.Mono) {
			h.settledTwice()
			return
		}
	}
	h.t.Fatalf("the broker does not come to rest: deadline %d, now %d", h.b.Deadline(), h.now.Mono)
}

// settledTwice fails unless another Settle has nothing to do.
func (h *bench) settledTwice() {
	h.t.Helper()
	if h.exit != nil {
		return
	}
	h.fx.Reset()
	h.b.Settle(h.now, &h.fx)
	if n := len(h.fx.Sends) + len(h.fx.Disk) + len(h.fx.Closes) + len(h.fx.Events); n > 0 {
		h.t.Fatalf("a second Settle had %d effects: %+v", n, h.fx)
	}
}

func (h *bench) collect() {
	for _, s := range h.fx.Sends {
		if s.To&node.Dialled == 0 {
			h.answers[s.To] = append(h.answers[s.To], s.Frame)
		}
	}
	h.events = append(h.events, h.fx.Events...)
	if h.fx.Exit != nil {
		h.exit = h.fx.Exit
	}
}

// unstick lets the disk answer again.
func (h *bench) unstick() {
	h.stuck = false
	ops := h.held
	h.held = nil
	for _, op := range ops {
		h.b.DiskDone(h.now, h.store.Do(op))
	}
	h.run()
}

// pass moves the clock, stopping at each deadline on the way.
func (h *bench) pass(d time.Duration) {
	h.t.Helper()
	end := h.now.Mono.Add(d)
	for h.now.Mono < end {
		next := min(max(h.b.Deadline(), h.now.Mono+1), end)
		h.now.Wall += (int64(next)/1e6 - int64(h.now.Mono)/1e6)
		h.now.Mono = next
		h.run()
	}
}

// restart ends the life, cleanly or not, and begins another as master.
func (h *bench) restart(clean bool, o Options) {
	h.t.Helper()
	if clean {
		h.b.Stop(h.now)
		h.run()
		if h.exit == nil || h.exit.Code != node.ExitClean {
			h.t.Fatalf("stop: %+v", h.exit)
		}
	}
	if err := h.store.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.open(o)
}

// put hands one request in without settling.
func (h *bench) put(s node.SessionID, f wire.Frame) {
	f.Link = wire.Remoting
	h.b.Prepare(h.now, &f, node.Peer{Addr: fmt.Sprintf("10.0.1.%d:40000", s)})
	h.b.Receive(h.now, s, &f)
}

// request builds a request.
func (h *bench) request(code int32, header any, body []byte) wire.Frame {
	h.opaque++
	return wire.NewRequest(code, h.opaque, header, body)
}

// call sends a request on session 1 and returns its answer; nil when there is none.
func (h *bench) call(code int32, header any, body []byte) *wire.Frame {
	h.t.Helper()
	return h.callOn(1, code, header, body)
}

func (h *bench) callOn(s node.SessionID, code int32, header any, body []byte) *wire.Frame {
	h.t.Helper()
	f := h.request(code, header, body)
	h.put(s, f)
	h.run()
	return h.answer(s, f.Head.Opaque)
}

// answer takes the answer to a request out of what was sent.
func (h *bench) answer(s node.SessionID, opaque int32) *wire.Frame {
	h.t.Helper()
	list := h.answers[s]
	i := slices.IndexFunc(list, func(f wire.Frame) bool { return f.Head.Response() && f.Head.Opaque == opaque })
	if i < 0 {
		return nil
	}
	f := list[i]
	h.answers[s] = slices.Delete(list, i, i+1)
	return &f
}

// notices takes the requests of the broker to a client with the code.
func (h *bench) notices(s node.SessionID, code int32) int {
	n := len(h.answers[s])
	h.answers[s] = slices.DeleteFunc(h.answers[s], func(f wire.Frame) bool { return !f.Head.Response() && f.Head.Code == code })
	return n - len(h.answers[s])
}

// want fails unless f is an answer with the code, and says what it said.
func (h *bench) want(f *wire.Frame, code int32, remark string) {
	h.t.Helper()
	if f == nil {
		h.t.Fatalf("no answer, want code %d", code)
	}
	if f.Head.Code != code || !strings.Contains(f.Head.Remark, remark) {
		h.t.Fatalf("code %d %q, want %d with %q", f.Head.Code, f.Head.Remark, code, remark)
	}
}

// ok fails unless f is a success.
func (h *bench) ok(f *wire.Frame) *wire.Frame {
	h.t.Helper()
	h.want(f, wire.CodeSuccess, "")
	return f
}

// send sends one message and returns the answer.
func (h *bench) send(topic string, queue int32, tags, body string) *wire.Frame {
	h.t.Helper()
	return h.call(wire.ReqSendMessage, sendHeader(topic, queue, props("UNIQ_KEY", "K"+body[:min(len(body), 16)], "TAGS", tags)), []byte(body))
}

func sendHeader(topic string, queue int32, properties string) *wire.SendMessageRequest {
	return &wire.SendMessageRequest{ProducerGroup: "pg", Topic: topic, DefaultTopic: templateTopic, DefaultTopicQueueNums: 4,
		QueueID: queue, BornTimestamp: 1699999999000, Properties: properties}
}

// topic creates a topic.
func (h *bench) topic(name string, queues int32) {
	h.t.Helper()
	h.ok(h.call(wire.ReqCreateTopic, topicHeader(name, queues), nil))
}

func topicHeader(name string, queues int32) *wire.CreateTopicRequest {
	return &wire.CreateTopicRequest{Topic: name, DefaultTopic: templateTopic, ReadQueueNums: queues, WriteQueueNums: queues,
		Perm: 6, TopicFilterType: wire.FilterTypeSingleTag}
}

// pull pulls with an own subscription.
func (h *bench) pull(topic string, queue int32, offset int64, tags string) *wire.Frame {
	h.t.Helper()
	return h.call(wire.ReqPull, pullHeader(topic, queue, offset, tags), nil)
}

func pullHeader(topic string, queue int32, offset int64, tags string) *wire.PullRequest {
	return &wire.PullRequest{ConsumerGroup: "cg", Topic: topic, QueueID: queue, QueueOffset: offset, MaxMsgNums: 32,
		SysFlag: wire.PullSubscription, Subscription: tags}
}

// bodies decodes the messages of a pull answer.
func bodies(t testing.TB, f *wire.Frame) []string {
	t.Helper()
	var out []string
	for rest := f.Body; len(rest) > 0; {
		r, reason := storage.DecodeRecord(firstRecord(rest))
		if reason != "" {
			t.Fatalf("pulled bytes do not decode: %s", reason)
		}
		if why := r.Verify(r.Physical, storage.PropCRCRequired); why != "" {
			t.Fatalf("pulled record: %s", why)
		}
		out = append(out, string(r.Body))
		rest = rest[r.Size():]
	}
	return out
}

// commit commits an offset and returns the request's opaque; nothing is settled.
func (h *bench) commit(group, topic string, queue int32, offset int64) int32 {
	f := h.request(wire.ReqUpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: group, Topic: topic, QueueID: queue, CommitOffset: offset}, nil)
	h.put(1, f)
	return f.Head.Opaque
}

// query asks for a committed offset.
func (h *bench) query(group, topic string, queue int32) *wire.Frame {
	h.t.Helper()
	return h.call(wire.ReqQueryConsumerOffset, &wire.QueryOffsetRequest{ConsumerGroup: group, Topic: topic, QueueID: queue}, nil)
}

func extInt(t testing.TB, f *wire.Frame, key string) string {
	t.Helper()
	v, ok := f.ExtFields().Get(key)
	if !ok {
		t.Fatalf("the answer has no %s: %v", key, f.ExtFields())
	}
	return v
}

// heartbeat registers a client of group cg on session s.
func (h *bench) heartbeat(s node.SessionID, client, group string, subs ...wire.SubscriptionData) *wire.Frame {
	h.t.Helper()
	body := wire.MarshalBody(wire.HeartbeatData{ClientID: client, ConsumerDataSet: []wire.ConsumerData{{GroupName: group,
		ConsumeType: wire.ConsumePassively, MessageModel: wire.ModelClustering, ConsumeFromWhere: wire.ConsumeFromLast, Subscriptions: subs}}})
	return h.callOn(s, wire.ReqHeartbeat, nil, body)
}

func sub(topic, expression string, version int64) wire.SubscriptionData {
	d := wire.SubscriptionData{Topic: topic, SubString: expression, SubVersion: version, ExpressionType: wire.ExpressionTag}
	if expression != "*" {
		for tag := range strings.SplitSeq(expression, "||") {
			d.TagsSet = append(d.TagsSet, strings.TrimSpace(tag))
		}
	}
	return d
}

// metaRecords counts the metadata records in the log.
func (h *bench) metaRecords() int64 {
	q := h.b.queueOf(storage.MetaTopic, storage.MetaQueue)
	if q == nil {
		return 0
	}
	return q.next
}

// sameMeta fails unless the state is what the log alone gives (M1, M2).
func (h *bench) sameMeta() {
	h.t.Helper()
	h.pass(2 * h.b.o.QueueFlushInterval) // storage finds the records by their queue entries
	r := h.store.Do(storage.Op{Kind: storage.OpLoadMeta, Off: h.b.log.end})
	if r.Err != nil {
		h.t.Fatal(r.Err)
	}
	st := newMetaState()
	for _, record := range r.Records {
		rec, _ := storage.DecodeRecord(record)
		if err := st.apply(rec.Body, rec.Physical, rec.End()); err != nil {
			h.t.Fatal(err)
		}
	}
	if !bytes.Equal(canonical(&st), canonical(&h.b.meta)) {
		h.t.Fatalf("the state is not what the log says:\n%q\n%q", canonical(&h.b.meta), canonical(&st))
	}
}
