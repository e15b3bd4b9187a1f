package scenarios

import (
	"encoding/binary"
	"fmt"
	"slices"

	"lockstep/checker"
	"lockstep/internal/ha"
)

// Queues, topics, groups and offsets are derived from the log. Replicas whose logs
// are equal must have derived the same, and what they derived must be what the judge
// reads in the log itself.

// underived says which of a group's healed replicas has not derived what its log
// says, "" when all have.
func (r *Run) underived(g int) string {
	group := GroupName(g)
	master := r.Truth.Node(group, r.Truth.refresh(group).Master)
	m := r.brokerAt(master)
	if m == nil {
		return "no master"
	}
	want := m.Derived()
	for i := range r.Setup.Replicas {
		n := BrokerNode(g, i)
		if n != master && !slices.Contains(r.healed, n) {
			continue
		}
		b := r.brokerAt(n)
		if b == nil {
			return n + " is not up"
		}
		if why := tablesDiffer(want, b.Derived()); why != "" {
			return fmt.Sprintf("%s and master %s: %s", n, master, why)
		}
		if why := r.queuesDiffer(group, r.Truth.ID(n)); why != "" {
			return n + ": " + why
		}
	}
	return ""
}

// tablesDiffer names the first row that only one of two sorted tables has.
func tablesDiffer(want, got []string) string {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got) || i < len(want) && want[i] < got[i]:
			return "missing: " + want[i]
		case i >= len(want) || got[i] < want[i]:
			return "extra: " + got[i]
		}
	}
	return ""
}

// unitFile is one consume queue file of the drill's topic, by its first position.
type unitFile struct {
	queue int32
	start int64
}

// unitBytes is the size of a consume queue entry: log offset, size, hash of the tag.
const unitBytes = 20

// queuesDiffer compares a replica's consume queue files with the messages in its own
// log.
func (r *Run) queuesDiffer(group string, id ha.BrokerID) (why string) {
	disk := r.disk(r.Truth.Node(group, id))
	file := int64(r.Setup.storeOptions(groupIndex(group)).QueueUnits) * unitBytes
	names := map[unitFile]string{}
	r.scanLog(group, id, r.Truth.MinOffset(group, id), func(rec *checker.Record) {
		if why != "" {
			return
		}
		pos := rec.QueueOffset * unitBytes
		f := unitFile{rec.Queue, pos / file * file}
		if names[f] == "" {
			names[f] = fmt.Sprintf("consumequeue/%s/%d/%020d", Topic, f.queue, f.start)
		}
		raw, ok := disk.CachedAt(names[f], pos%file, unitBytes)
		why = unitDiffers(raw, ok, rec)
		if why != "" {
			why = fmt.Sprintf("queue %d offset %d of the message at %d: %s", rec.Queue, rec.QueueOffset, rec.Log, why)
		}
	})
	return why
}

// unitDiffers compares a consume queue entry with its message.
func unitDiffers(raw []byte, ok bool, rec *checker.Record) string {
	if !ok || len(raw) < unitBytes {
		return "no entry"
	}
	log, size, tag := int64(binary.BigEndian.Uint64(raw)), int(binary.BigEndian.Uint32(raw[8:])), int64(binary.BigEndian.Uint64(raw[12:]))
	if log != int64(rec.Log) || size != rec.Size || tag != tagHash(rec.Property("TAGS")) {
		return fmt.Sprintf("the entry says log offset %d, %d bytes, tag %d, the log has %d bytes and tag %d there", log, size, tag, rec.Size, tagHash(rec.Property("TAGS")))
	}
	return ""
}

// tagHash is Java's String.hashCode of an ASCII tag, 0 for none.
func tagHash(tag string) int64 {
	h := int32(0)
	for i := range len(tag) {
		h = 31*h + int32(tag[i])
	}
	return int64(h)
}
