package maelstrom

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/node"
	"lockstep/node/host/maelstrom/rpc"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Each key of the kafka workload is one queue of the broker. Keys that are whole
// numbers, which is what Maelstrom sends, share topics of queuesPerTopic queues;
// any other key has a topic of its own. Offsets are those of the consume queue.
const (
	queuesPerTopic = 1024
	// maxKey bounds keys that are no numbers, bytes.
	maxKey = 60
	// maxKeys bounds the keys of one request. A run makes a fresh key every sixteen
	// sends, and its last requests name all of them.
	maxKeys = 1 << 16
	// maxNumber bounds keys that are numbers.
	maxNumber = 1 << 40
	// maxPolled is how many messages of a key one poll answers with.
	maxPolled = 256
)

// place is where a key is kept.
type place struct {
	key   string
	topic string
	queue int32
}

// placeOf finds the queue of a key.
func placeOf(key string) (place, error) {
	n, err := strconv.ParseInt(key, 10, 64)
	if err == nil && n >= 0 && n < maxNumber && strconv.FormatInt(n, 10) == key {
		return place{key, fmt.Sprintf("keys-%d", n/queuesPerTopic), int32(n % queuesPerTopic)}, nil
	}
	if key == "" || len(key) > maxKey {
		return place{}, rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("a key has 1 to %d bytes", maxKey))
	}
	return place{key, "key-" + hex.EncodeToString([]byte(key)), 0}, nil
}

// placesOf finds the queues of keys, in order.
func placesOf(keys []string) ([]place, error) {
	if len(keys) > maxKeys {
		return nil, rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("%d keys, at most %d", len(keys), maxKeys))
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	out := make([]place, len(keys))
	for i, k := range keys {
		var err error
		if out[i], err = placeOf(k); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// offsetsOf reads the offsets of a request in the order of keys.
func offsetsOf(offsets map[string]*int64) ([]place, []int64, error) {
	keys := make([]string, 0, len(offsets))
	for k := range offsets {
		keys = append(keys, k)
	}
	places, err := placesOf(keys)
	if err != nil {
		return nil, nil, err
	}
	out := make([]int64, len(places))
	for i, p := range places {
		at := offsets[p.key]
		if at == nil {
			return nil, nil, rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("the offset of key %.100q is missing", p.key))
		}
		if out[i] = *at; out[i] < 0 || out[i] > 1<<62 {
			return nil, nil, rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("offset %d of key %.100q is out of range", out[i], p.key))
		}
	}
	return places, out, nil
}

// onMaster is shared by the tasks of the queues.
type onMaster struct{}

func (onMaster) where(g *gateway, now node.Now, began node.Time) string { return g.master }
func (onMaster) limit(p *Profile) time.Duration                         { return p.Answer }
func (onMaster) harmless() bool                                         { return false }
func (onMaster) definite() bool                                         { return true }

// sendTask appends one message. It is sent once; only a refusal, which says that
// nothing was stored, is followed by another try.
type sendTask struct {
	onMaster
	at     place
	msg    json.RawMessage
	offset int64
}

func newSend(m *rpc.Message) (task, error) {
	var b struct {
		Key *string         `json:"key"`
		Msg json.RawMessage `json:"msg"`
	}
	if err := m.Decode(&b); err != nil {
		return nil, err
	}
	if b.Key == nil || len(b.Msg) == 0 {
		return nil, rpc.NewRPCError(rpc.MalformedRequest, "send needs key and msg")
	}
	at, err := placeOf(*b.Key)
	if len(b.Msg) > maxMessage {
		err = rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("a message has at most %d bytes", maxMessage))
	}
	if tooDeep(b.Msg) {
		err = rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("msg is nested more than %d levels deep", maxDepth))
	}
	return &sendTask{at: at, msg: b.Msg}, err
}

// maxMessage bounds one message, bytes.
const maxMessage = 1 << 20

func (t *sendTask) parts() int { return 1 }

func (t *sendTask) where(g *gateway, now node.Now, began node.Time) string {
	if g.creating[t.at.topic] {
		return ""
	}
	return g.master
}

func (t *sendTask) request(int) (int32, any, []byte) {
	return wire.ReqSendMessageV2, &wire.SendMessageRequest{ProducerGroup: group, Topic: t.at.topic, DefaultTopic: "TBW102",
		DefaultTopicQueueNums: 1, QueueID: t.at.queue}, t.msg
}

func (t *sendTask) take(g *gateway, now node.Now, _ int, f *wire.Frame) (verdict, *rpc.RPCError) {
	switch f.Head.Code {
	case wire.CodeSuccess:
		h, err := f.SendResponse()
		if err != nil {
			return partFailed, rpc.NewRPCError(rpc.Crash, "stored, but the answer does not decode: "+err.Error())
		}
		t.offset = h.QueueOffset
		return partDone, nil
	case wire.CodeFlushDiskTimeout, wire.CodeFlushSlaveTimeout:
		return partFailed, rpc.NewRPCError(rpc.Timeout, "stored, but not proven on its replicas: "+f.Head.Remark)
	case wire.CodeTopicNotExist:
		g.create(now, t.at.topic)
		return partAgain, nil
	case wire.CodeMessageIllegal:
		return partFailed, rpc.NewRPCError(rpc.MalformedRequest, f.Head.Remark)
	}
	return partAgain, nil // every other code of a send is a refusal: nothing was stored
}

func (t *sendTask) reply() any {
	return struct {
		Type   string `json:"type"`
		Offset int64  `json:"offset"`
	}{"send_ok", t.offset}
}

// createTask makes a topic; no client waits for it.
type createTask struct {
	onMaster
	g     *gateway
	topic string
}

// create makes a topic unless that is under way.
func (g *gateway) create(now node.Now, topic string) {
	if !g.creating[topic] {
		g.creating[topic] = true
		g.start(now.Mono, rpc.Message{}, &createTask{g: g, topic: topic})
	}
}

func (t *createTask) parts() int     { return 1 }
func (t *createTask) harmless() bool { return true }
func (t *createTask) request(int) (int32, any, []byte) {
	queues := int32(1)
	if strings.HasPrefix(t.topic, "keys-") {
		queues = queuesPerTopic
	}
	return wire.ReqCreateTopic, wire.CreateTopicRequest{Topic: t.topic, DefaultTopic: "TBW102", ReadQueueNums: queues, WriteQueueNums: queues,
		Perm: wire.PermRead | wire.PermWrite, TopicFilterType: wire.FilterTypeSingleTag}, nil
}

func (t *createTask) take(g *gateway, now node.Now, _ int, f *wire.Frame) (verdict, *rpc.RPCError) {
	if f.Head.Code != wire.CodeSuccess {
		return partAgain, nil
	}
	g.againAt = now.Mono // the sends that wait for it
	return partDone, nil
}

// ended lets sends go on: one that still finds no topic asks for it again.
func (t *createTask) ended() { delete(t.g.creating, t.topic) }

func (t *createTask) limit(p *Profile) time.Duration { return p.Answer }
func (t *createTask) reply() any                     { return nil }

// pollTask reads each key from an offset on, at the master. The local replica
// answers while no master can be reached, and three of four polls of many keys: what
// it shows is confirmed, and may be old, and carrying whole logs between nodes that
// both have them would hold up everything else.
type pollTask struct {
	onMaster
	places  []place
	offsets []int64
	got     [][]polled
	at      pollAt
}

// pollAt says where a poll reads.
type pollAt uint8

const (
	pollUndecided pollAt = iota
	pollMaster
	pollLocal
)

const (
	// manyKeys is from how many keys on a poll may read the local replica.
	manyKeys = 64
	// freshEvery: one in so many of these reads the master all the same, so that a
	// replica that hangs hides nothing for ever.
	freshEvery = 4
)

// polled is one message.
type polled struct {
	offset int64
	msg    []byte
}

func newPoll(m *rpc.Message) (task, error) {
	var b struct {
		Offsets map[string]*int64 `json:"offsets"`
	}
	if err := m.Decode(&b); err != nil {
		return nil, err
	}
	if b.Offsets == nil {
		return nil, rpc.NewRPCError(rpc.MalformedRequest, "poll needs offsets")
	}
	places, offsets, err := offsetsOf(b.Offsets)
	return &pollTask{places: places, offsets: offsets, got: make([][]polled, len(places))}, err
}

// localAfter is how long a poll looks for the master, and partlyAfter how long it
// waits for every key: after that it answers with the keys it has.
const (
	localAfter  = 400 * time.Millisecond
	partlyAfter = 2 * time.Second
)

func (t *pollTask) parts() int     { return len(t.places) }
func (t *pollTask) harmless() bool { return true }

func (t *pollTask) where(g *gateway, now node.Now, began node.Time) string {
	if t.at == pollUndecided {
		t.at = pollMaster
		if len(t.places) >= manyKeys {
			if g.bigPolls++; g.bigPolls%freshEvery != 0 {
				t.at = pollLocal
			}
		}
	}
	if t.at == pollLocal || now.Mono >= began.Add(localAfter) && (g.master == "" || g.target(now, g.master) == nil) {
		return addrOf(g.h.index, portBroker)
	}
	return g.master
}

func (t *pollTask) partly(age time.Duration) bool { return age >= partlyAfter }

func (t *pollTask) request(i int) (int32, any, []byte) {
	p := t.places[i]
	return wire.ReqPull, &wire.PullRequest{ConsumerGroup: group, Topic: p.topic, QueueID: p.queue, QueueOffset: t.offsets[i],
		MaxMsgNums: maxPolled, SysFlag: wire.PullSubscription, Subscription: "*", ExpressionType: "TAG"}, nil
}

func (t *pollTask) take(g *gateway, now node.Now, i int, f *wire.Frame) (verdict, *rpc.RPCError) {
	switch f.Head.Code {
	case wire.CodeSuccess:
		got, err := messagesOf(f.Body)
		if err != nil {
			return partFailed, rpc.NewRPCError(rpc.Crash, err.Error())
		}
		t.got[i] = got
	case wire.CodePullNotFound, wire.CodePullRetryImmediately, wire.CodePullOffsetMoved, wire.CodeTopicNotExist:
	default:
		return partAgain, nil
	}
	return partDone, nil
}

// messagesOf splits the records of an answer.
func messagesOf(body []byte) (out []polled, err error) {
	for len(body) >= storage.MinRecord {
		size := int64(body[0])<<24 | int64(body[1])<<16 | int64(body[2])<<8 | int64(body[3])
		if size < storage.MinRecord || size > int64(len(body)) {
			break
		}
		rec, why := storage.DecodeRecord(body[:size])
		if why != "" || storage.CRC(rec.Body) != rec.BodyCRC {
			return nil, fmt.Errorf("polled record at %d is damaged: %s", rec.Physical, why)
		}
		out, body = append(out, polled{rec.QueueOffset, rec.Body}), body[size:]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("polled records: %d bytes at the end are no record", len(body))
	}
	return out, nil
}

// reply writes the answer by hand: it is the largest of all.
func (t *pollTask) reply() any {
	b := []byte(`{"type":"poll_ok","msgs":{`)
	first := true
	for i, p := range t.places {
		if len(t.got[i]) == 0 {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		key, err := json.Marshal(p.key)
		if err != nil { // a text always encodes
			panic(err)
		}
		b = append(append(b, key...), ":["...)
		for j, m := range t.got[i] {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, '['), m.offset, 10)
			b = append(append(append(b, ','), m.msg...), ']')
		}
		b = append(b, ']')
	}
	return json.RawMessage(append(b, "}}"...))
}

// commitTask stores the highest offset that was processed, as the next one to be
// read, which is how RocketMQ counts.
type commitTask struct {
	onMaster
	places  []place
	offsets []int64
}

func newCommit(m *rpc.Message) (task, error) {
	var b struct {
		Offsets map[string]*int64 `json:"offsets"`
	}
	if err := m.Decode(&b); err != nil {
		return nil, err
	}
	if b.Offsets == nil {
		return nil, rpc.NewRPCError(rpc.MalformedRequest, "commit_offsets needs offsets")
	}
	places, offsets, err := offsetsOf(b.Offsets)
	return &commitTask{places: places, offsets: offsets}, err
}

func (t *commitTask) parts() int { return len(t.places) }

// definite: Maelstrom's client commits inside its poll. A definite error there
// makes the whole poll count as one that never happened, although the client has
// moved on past its messages, and the next poll looks like a skip. An indefinite one
// ends that client, which is what a consumer that cannot commit should do.
func (t *commitTask) definite() bool { return false }

func (t *commitTask) request(i int) (int32, any, []byte) {
	p := t.places[i]
	return wire.ReqUpdateConsumerOffset, wire.UpdateOffsetRequest{ConsumerGroup: group, Topic: p.topic, QueueID: p.queue, CommitOffset: t.offsets[i] + 1}, nil
}

func (t *commitTask) take(g *gateway, now node.Now, i int, f *wire.Frame) (verdict, *rpc.RPCError) {
	switch f.Head.Code {
	case wire.CodeSuccess:
		return partDone, nil
	case wire.CodeTopicNotExist, wire.CodeInvalidParameter:
		return partFailed, rpc.NewRPCError(rpc.KeyDoesNotExist, fmt.Sprintf("key %.100q holds no message at offset %d: %s", t.places[i].key, t.offsets[i], f.Head.Remark))
	case wire.CodeFlushDiskTimeout, wire.CodeFlushSlaveTimeout:
		return partFailed, rpc.NewRPCError(rpc.Timeout, "stored, but not proven on its replicas: "+f.Head.Remark)
	case wire.CodeSlaveNotAvailable, wire.CodeSystemBusy:
		return partAgain, nil
	}
	return partDoubt, nil // a master that cannot write keeps the offset until it can
}

func (t *commitTask) reply() any { return typeOnly{"commit_offsets_ok"} }

type typeOnly struct {
	Type string `json:"type"`
}

// listTask reads committed offsets.
type listTask struct {
	onMaster
	places  []place
	offsets map[string]int64
}

func newList(m *rpc.Message) (task, error) {
	var b struct {
		Keys []string `json:"keys"`
	}
	if err := m.Decode(&b); err != nil {
		return nil, err
	}
	if b.Keys == nil {
		return nil, rpc.NewRPCError(rpc.MalformedRequest, "list_committed_offsets needs keys")
	}
	places, err := placesOf(b.Keys)
	return &listTask{places: places, offsets: map[string]int64{}}, err
}

func (t *listTask) parts() int     { return len(t.places) }
func (t *listTask) harmless() bool { return true }
func (t *listTask) request(i int) (int32, any, []byte) {
	p := t.places[i]
	return wire.ReqQueryConsumerOffset, wire.QueryOffsetRequest{ConsumerGroup: group, Topic: p.topic, QueueID: p.queue, KeepUnset: true}, nil
}

func (t *listTask) take(g *gateway, now node.Now, i int, f *wire.Frame) (verdict, *rpc.RPCError) {
	switch f.Head.Code {
	case wire.CodeSuccess:
		var h wire.OffsetResponse
		if err := f.Header(&h); err != nil {
			return partFailed, rpc.NewRPCError(rpc.Crash, err.Error())
		}
		if h.Offset > 0 {
			t.offsets[t.places[i].key] = h.Offset - 1
		}
	case wire.CodeQueryNotFound, wire.CodeTopicNotExist:
	default:
		return partAgain, nil
	}
	return partDone, nil
}

func (t *listTask) reply() any {
	return struct {
		Type    string           `json:"type"`
		Offsets map[string]int64 `json:"offsets"`
	}{"list_committed_offsets_ok", t.offsets}
}
