package broker

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"lockstep/internal/ha"
	"lockstep/node/wire"
	"lockstep/storage"

	"pgregory.net/rapid"
)

// metaLog is a log of metadata record bodies with their positions.
type metaLog struct {
	bodies [][]byte
	starts []ha.LogOffset
	end    ha.LogOffset
}

func (l *metaLog) add(body []byte) {
	l.bodies = append(l.bodies, body)
	l.starts = append(l.starts, l.end)
	l.end += ha.LogOffset(len(body))
}

// cut keeps the first n records.
func (l *metaLog) cut(n int) {
	if n < len(l.bodies) {
		l.end = l.starts[n]
		l.bodies, l.starts = l.bodies[:n], l.starts[:n]
	}
}

// replay applies the records from number from on to an empty state.
func (l *metaLog) replay(t interface{ Fatalf(string, ...any) }, from int) metaState {
	st := newMetaState()
	for i := from; i < len(l.bodies); i++ {
		if err := st.apply(l.bodies[i], l.starts[i], l.starts[i]+ha.LogOffset(len(l.bodies[i]))); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	return st
}

// newestCheckpoint is the number of the first record of the newest complete
// checkpoint, found the way storage finds it: from headers alone; 0 when none.
func (l *metaLog) newestCheckpoint() int {
	for i := len(l.bodies) - 1; i >= 0; i-- {
		h, _, _ := storage.ParseMetaHeader(l.bodies[i])
		if !h.Checkpoint || h.Part != h.Parts || i+1 < int(h.Parts) {
			continue
		}
		whole := true
		for k := range int(h.Parts) {
			g, _, _ := storage.ParseMetaHeader(l.bodies[i-k])
			whole = whole && g.Checkpoint && g.ID == h.ID && int(g.Part) == int(h.Parts)-k
		}
		if whole {
			return i + 1 - int(h.Parts)
		}
	}
	return 0
}

func drawEntry(t *rapid.T) metaEntry {
	topic := fmt.Sprintf("T%d", rapid.IntRange(0, 4).Draw(t, "topic"))
	group := fmt.Sprintf("G%d", rapid.IntRange(0, 3).Draw(t, "group"))
	version := wire.DataVersion{Counter: rapid.Int64Range(0, 1<<40).Draw(t, "counter"), StateVersion: 3, Timestamp: 1700000000000}
	switch metaKind(rapid.IntRange(1, 12).Draw(t, "kind")) {
	case metaPutTopic:
		return metaEntry{kind: metaPutTopic, name: topic, config: newTopic(topic, rapid.Int32Range(1, 9).Draw(t, "queues"), 6)}
	case metaDropTopic:
		return metaEntry{kind: metaDropTopic, name: topic}
	case metaPutGroup:
		c := wire.NewSubscriptionGroup(group)
		c.RetryMaxTimes = rapid.Int32Range(0, 20).Draw(t, "retries")
		return metaEntry{kind: metaPutGroup, name: group, group: c}
	case metaDropGroup:
		return metaEntry{kind: metaDropGroup, name: group}
	case metaDropOffsets:
		return metaEntry{kind: metaDropOffsets, name: group}
	case metaTopicVersion:
		return metaEntry{kind: metaTopicVersion, version: version}
	case metaGroupVersion:
		return metaEntry{kind: metaGroupVersion, version: version}
	case metaOffsetVersion:
		return metaEntry{kind: metaOffsetVersion, version: version}
	case metaPutFloor:
		return metaEntry{kind: metaPutFloor, name: topic, queue: rapid.Int32Range(0, 5).Draw(t, "queue"), offset: rapid.Int64Range(0, 99).Draw(t, "floor")}
	case metaDropFloors:
		return metaEntry{kind: metaDropFloors, name: topic}
	default:
		return metaEntry{kind: metaPutOffset, name: group, topic: topic, queue: rapid.Int32Range(0, 5).Draw(t, "queue"),
			offset: rapid.Int64Range(0, 1<<50).Draw(t, "offset")}
	}
}

// checkpointBodies are the parts of a checkpoint of st.
func checkpointBodies(st *metaState, id uint64, limit int) [][]byte {
	return checkpointOf(st.dump(), id, limit)
}

// canonical is the state as bytes: equal states give equal bytes.
func canonical(st *metaState) []byte { return bytes.Join(checkpointBodies(st, 1, 1<<20), nil) }

// TestMetaReplay holds M1–M3 and M8: the state is a function of the log alone.
// A random history of deltas, checkpoints of several parts, and truncations that
// may cut a checkpoint in two is applied as a running master and slave do; at any
// point the full log, and the newest complete checkpoint plus what follows it,
// must give the same state.
func TestMetaReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log metaLog
		live := newMetaState()
		apply := func(body []byte) {
			at := log.end
			log.add(body)
			if err := live.apply(body, at, log.end); err != nil {
				t.Fatalf("apply: %v", err)
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				for _, body := range checkpointBodies(&live, uint64(log.end)+1, rapid.IntRange(60, 800).Draw(t, "part")) {
					apply(body)
				}
			case 2:
				log.cut(rapid.IntRange(0, len(log.bodies)).Draw(t, "cut"))
				live = log.replay(t, log.newestCheckpoint()) // what resetMeta does
			default:
				var entries []metaEntry
				for range rapid.IntRange(1, 6).Draw(t, "entries") {
					entries = append(entries, drawEntry(t))
				}
				for _, body := range deltaBodies(entries, rapid.IntRange(60, 800).Draw(t, "limit")) {
					apply(body)
				}
			}
			full := log.replay(t, 0)
			short := log.replay(t, log.newestCheckpoint())
			if !bytes.Equal(canonical(&full), canonical(&live)) {
				t.Fatalf("the whole log gives another state than the running one:\n%x\n%x", canonical(&full), canonical(&live))
			}
			if !bytes.Equal(canonical(&short), canonical(&live)) {
				t.Fatalf("checkpoint and deltas give another state than the running one")
			}
			if full.checkpoint != short.checkpoint || full.checkpoint != live.checkpoint {
				t.Fatalf("newest checkpoint: full %v, short %v, live %v", full.checkpoint, short.checkpoint, live.checkpoint)
			}
		}
	})
}

// TestMetaCutCheckpoint: a checkpoint whose last part was truncated away changes
// nothing, also when another master's records follow it.
func TestMetaCutCheckpoint(t *testing.T) {
	st := newMetaState()
	for i := range 20 {
		name := fmt.Sprintf("Topic%d", i)
		st.topics[name] = newTopic(name, 4, 6)
	}
	parts := checkpointBodies(&st, 7, 400)
	if len(parts) < 3 {
		t.Fatalf("%d parts, want several", len(parts))
	}
	var log metaLog
	log.add(deltaBodies([]metaEntry{{kind: metaPutTopic, name: "A", config: newTopic("A", 1, 6)}}, 1000)[0])
	for _, p := range parts[:len(parts)-1] {
		log.add(p)
	}
	log.add(deltaBodies([]metaEntry{{kind: metaPutTopic, name: "B", config: newTopic("B", 1, 6)}}, 1000)[0])
	log.add(parts[len(parts)-1]) // a stray part must not complete it
	got := log.replay(t, 0)
	if len(got.topics) != 2 || got.checkpoint != (checkpointRange{}) {
		t.Fatalf("topics %v, checkpoint %v: want A and B and no checkpoint", sortedKeys(got.topics), got.checkpoint)
	}
}

// TestMetaRefusesNewer: a record this version cannot read whole changes nothing.
func TestMetaRefusesNewer(t *testing.T) {
	good := appendEntry(nil, metaEntry{kind: metaPutTopic, name: "A", config: newTopic("A", 1, 6)})
	header := func(version uint8) []byte { return storage.MetaHeader{Version: version}.Append(nil) }
	for name, body := range map[string][]byte{
		"newer format":  append(header(metaVersion+1), good...),
		"unknown kind":  append(append(header(metaVersion), good...), 99, 0),
		"cut short":     append(header(metaVersion), good[:len(good)-1]...),
		"no header":     good,
		"nameless":      append(header(metaVersion), appendEntry(nil, metaEntry{kind: metaDropTopic})...),
		"queue too big": append(header(metaVersion), appendEntry(nil, metaEntry{kind: metaPutOffset, name: "g", topic: "t", queue: maxQueues})...),
	} {
		st := newMetaState()
		if err := st.apply(body, 0, 1); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if len(st.topics) != 0 || st.records != 0 {
			t.Errorf("%s: changed the state", name)
		}
	}
}

// TestMetaGolden pins the format: a record written today must read for ever.
func TestMetaGolden(t *testing.T) {
	body := deltaBodies([]metaEntry{{kind: metaPutOffset, name: "G", topic: "T", queue: 3, offset: 300}}, 1000)[0]
	const offset = "4c534d0101000000000000000000000000000000000507014701540" + "3ac02"
	if got := hex.EncodeToString(body); got != offset {
		t.Errorf("offset delta is\n%s, want\n%s", got, offset)
	}
	version := deltaBodies([]metaEntry{{kind: metaTopicVersion, version: wire.DataVersion{Counter: 1, StateVersion: 2, Timestamp: 300}}}, 1000)[0]
	const wantVersion = "4c534d010100000000000000000000000000000000070402ac0201"
	if got := hex.EncodeToString(version); got != wantVersion {
		t.Errorf("version delta is\n%s, want\n%s", got, wantVersion)
	}
	topic := deltaBodies([]metaEntry{{kind: metaPutTopic, name: "T", config: newTopic("T", 4, 6)}}, 1000)[0]
	const text = `{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}`
	if got := string(topic[storage.MetaHeaderBytes:]); got != "\x01\x8d\x01"+text {
		t.Errorf("topic delta is %q", got)
	}
}

// FuzzMetaRecord: no bytes make the decoder panic, and what it accepts encodes to
// something it accepts again with the same meaning.
func FuzzMetaRecord(f *testing.F) {
	st := newMetaState()
	st.topics["T"] = newTopic("T", 4, 6)
	st.groups["G"] = wire.NewSubscriptionGroup("G")
	st.putOffset(offsetKey{"G", "T"}, 2, 77)
	f.Add(checkpointBodies(&st, 9, 1<<20)[0])
	f.Add(deltaBodies([]metaEntry{{kind: metaDropTopic, name: "T"}, {kind: metaDropOffsets, name: "G"}}, 1<<20)[0])
	f.Fuzz(func(t *testing.T, body []byte) {
		st := newMetaState()
		if st.apply(body, 0, ha.LogOffset(len(body))) != nil {
			return
		}
		again := newMetaState()
		for _, part := range checkpointBodies(&st, 1, 1<<20) {
			if err := again.apply(part, 0, 1); err != nil {
				t.Fatalf("an accepted state does not encode: %v", err)
			}
		}
		if !bytes.Equal(canonical(&st), canonical(&again)) {
			t.Fatal("the state changed by encoding it")
		}
	})
}
