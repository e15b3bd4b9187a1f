package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// TestRestartKeepsTables: topics, groups and offsets are the same after a clean
// stop and after a crash; a clean stop also loses no commit that was in memory, and
// leaves the tables as Java's files (M10).
func TestRestartKeepsTables(t *testing.T) {
	for _, clean := range []bool{true, false} {
		h := newBench(t, benchOptions())
		h.topic("T", 4)
		h.ok(h.send("T", 1, "a", "m"))
		h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
		op := h.commit("cg", "T", 1, 1)
		h.pass(time.Second)
		h.ok(h.answer(1, op))
		h.commit("late", "T", 1, 1)
		before := canonical(&h.b.meta)
		h.restart(clean, h.b.o)
		if !clean && string(canonical(&h.b.meta)) != string(before) {
			t.Error("a crash changed the tables")
		}
		if got := h.b.meta.offset(offsetKey{"late", "T"}, 1); clean != (got == 1) {
			t.Errorf("clean %v: the commit in memory is %d afterwards", clean, got)
		}
		if c, ok := h.b.topic("T"); !ok || c.ReadQueueNums != 4 {
			t.Errorf("clean %v: topic %+v", clean, c)
		}
		h.lead()
		h.ok(h.send("T", 1, "a", "m2"))
		h.sameMeta()
		if !clean {
			continue
		}
		for name, want := range map[string]string{
			topicsFile:  `"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":4`,
			groupsFile:  `"cg":{"groupName":"cg","consumeEnable":true`,
			offsetsFile: `"T@cg":{"1":1}`,
		} {
			text, err := vfs.ReadFile(h.fs, "config/"+name)
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %v\n%s\nlacks %s", name, err, text, want)
			}
		}
	}
}

// TestImportJava: the tables of a Java broker whose log has no metadata records
// become a checkpoint at the first mastership, and nothing before (M9, M10). The
// files are written in fastjson's habits.
func TestImportJava(t *testing.T) {
	o := benchOptions()
	h := &bench{t: t, fs: vfs.NewMem(vfs.MemOptions{})}
	write := func(name, text string) {
		if err := h.fs.MkdirAll("config"); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteAtomic(h.fs, "config/"+name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(topicsFile, `{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1600000000000},"topicConfigTable":{
		"Orders":{"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"Orders","topicSysFlag":0,"writeQueueNums":8},
		"TBW102":{"perm":7,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TBW102","writeQueueNums":8}}}`)
	write(groupsFile, `{"dataVersion":{"counter":2,"timestamp":1600000000000},"subscriptionGroupTable":{"cg":{"groupName":"cg","consumeEnable":true,"retryMaxTimes":5,"retryQueueNums":1}}}`)
	write(offsetsFile, `{"offsetTable":{"Orders@cg":{0:17,3:5},"%RETRY%cg@cg":{0:1}}}`)
	h.open(o)
	if len(h.b.meta.topics) != 0 || len(h.b.imports) == 0 {
		t.Fatal("imported before mastership, or not at all")
	}
	h.lead()
	if c := h.b.meta.topics["Orders"]; c.WriteQueueNums != 8 {
		t.Errorf("topic %+v", c)
	}
	if _, ok := h.b.meta.topics[templateTopic]; ok {
		t.Error("a system topic was taken from the files")
	}
	if c := h.b.meta.groups["cg"]; c.RetryMaxTimes != 5 || !c.ConsumeEnable {
		t.Errorf("group %+v", c)
	}
	if got := h.b.meta.offset(offsetKey{"cg", "Orders"}, 3); got != 5 {
		t.Errorf("offset %d, want 5", got)
	}
	if h.b.meta.topicsVersion.Counter != 8 {
		t.Errorf("version %+v, want one after Java's", h.b.meta.topicsVersion)
	}
	if start, end := h.b.metaCheckpoint(); start == 0 && end == 0 {
		t.Error("no checkpoint")
	}
	h.sameMeta()
	write(topicsFile, `{"topicConfigTable":{}}`) // changed behind the log's back: the log wins
	h.restart(false, o)
	if len(h.b.meta.topics) != 1 || len(h.b.imports) != 0 {
		t.Errorf("after a restart %d topics, %d imports: the log has the truth", len(h.b.meta.topics), len(h.b.imports))
	}
}

// TestImportRefused: a table that does not read stops the start, naming the file;
// going on would lose it.
func TestImportRefused(t *testing.T) {
	for name, text := range map[string]string{
		topicsFile:  `{"topicConfigTable":{"a.b":{"topicName":"a.b"}}}`,
		groupsFile:  `{"subscriptionGroupTable":`,
		offsetsFile: `{"offsetTable":{"nogroup":{0:1}}}`,
	} {
		_, err := New(benchOptions(), storage.Recovered{Identity: storage.Identity{Broker: 1, Store: "s"}, Config: []storage.ConfigFile{{Name: name, Text: []byte(text)}}})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "repair") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckpoints: a complete checkpoint is written each time enough log has passed
// (M3), so that recovery and retention need nothing older; none when idle.
func TestCheckpoints(t *testing.T) {
	o := benchOptions()
	o.MetaCheckpointBytes = 32 << 10
	h := newBench(t, o)
	h.topic("T", 1)
	var starts []int64
	for i := range 100 {
		h.ok(h.send("T", 0, "a", fmt.Sprint(i, strings.Repeat("x", 1<<10))))
		if s := int64(h.b.meta.checkpoint.start); len(starts) == 0 || starts[len(starts)-1] != s {
			starts = append(starts, s)
		}
	}
	if len(starts) < 4 || len(starts) > 8 {
		t.Errorf("checkpoints at %v: want one each 32 KiB of about 130", starts)
	}
	if start, end := h.b.metaCheckpoint(); int64(start) != starts[len(starts)-1] || end > h.b.confirmOffset() {
		t.Errorf("newest confirmed checkpoint [%d, %d)", start, end)
	}
	records := h.metaRecords()
	h.pass(time.Hour)
	if h.metaRecords() != records {
		t.Error("an idle broker writes checkpoints")
	}
	// The newest one counts only once it is confirmed; until then the one before.
	h.stuck = true
	last := h.b.meta.checkpoint
	for h.b.meta.checkpoint == last {
		h.put(1, h.request(wire.ReqSendMessage, sendHeader("T", 0, ""), make([]byte, 1<<10)))
		h.run()
	}
	if start, _ := h.b.metaCheckpoint(); start != last.start {
		t.Errorf("checkpoint at %d counts, want %d until the new one is confirmed", start, last.start)
	}
	h.unstick()
	h.sameMeta()
}

// TestManyTopics: a state larger than one record is split into parts, also in small
// segments, and loads again.
func TestManyTopics(t *testing.T) {
	o := benchOptions()
	o.MappedFileSizeCommitLog, o.MetaCheckpointBytes = 8<<10, 8<<10
	h := newBench(t, o)
	for i := range 200 {
		h.topic(fmt.Sprintf("Topic%03d", i), 4)
	}
	if len(checkpointBodies(&h.b.meta, 1, h.b.maxMetaBody())) < 3 {
		t.Fatal("the state fits in one part: the test shows nothing")
	}
	h.sameMeta()
	if h.b.meta.checkpoint == (checkpointRange{}) {
		t.Error("no complete checkpoint")
	}
	h.restart(false, o)
	if len(h.b.meta.topics) != 200 {
		t.Errorf("%d topics after a restart, want 200", len(h.b.meta.topics))
	}
}

// TestTruncationUndoesTables: a slave whose tail is cut has the tables of what is
// left (M2).
func TestTruncationUndoesTables(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("Kept", 1)
	cut := h.b.log.end
	h.stuck = true
	h.put(1, h.request(wire.ReqCreateTopic, topicHeader("Gone", 1), nil))
	h.run()
	if len(h.b.meta.topics) != 2 {
		t.Fatal("the state is not that of the log's end (M1)")
	}
	h.follow() // before anybody confirmed it
	h.unstick()
	h.b.wantCut(cut)
	h.run()
	if h.b.log.end != cut {
		t.Fatalf("end %d, want %d", h.b.log.end, cut)
	}
	if names := sortedKeys(h.b.meta.topics); !slices.Equal(names, []string{"Kept"}) {
		t.Errorf("topics %q after the cut", names)
	}
}
