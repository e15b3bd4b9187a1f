package broker

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// The names of the JSON tables in a store's config folder (HA contract 5.9).
const (
	topicsFile  = "topics.json"
	groupsFile  = "subscriptionGroup.json"
	offsetsFile = "consumerOffset.json"
)

// stopServices is called during a clean stop, before and after the log has become
// quiet: it writes what is pending while that is still possible, then the tables
// as Java's JSON files, so that the folder opens in a Java broker (M10). After an
// unclean stop the files are those of the last clean one, and the log has the
// truth; no Lockstep broker reads them while the log has metadata records.
func (b *Broker) stopServices(now node.Now) {
	if b.isMaster() && b.admit(now) == nil {
		b.flushCommits(now)
	}
	if b.stopped || !b.log.quiet() {
		return
	}
	b.stopped = true
	for _, file := range b.configFiles() {
		b.disk(storage.Op{Lane: storage.LaneMeta, Kind: storage.OpSave, Name: "config/" + file.Name, Blob: file.Text}, ownerServices)
	}
}

// configFiles are the tables in Java's layout.
func (b *Broker) configFiles() []storage.ConfigFile {
	topics := wire.TopicConfigWrapper{DataVersion: b.meta.topicsVersion, TopicConfigTable: b.allTopics()}
	groups := wire.GroupConfigWrapper{DataVersion: b.meta.groupsVersion, Groups: b.groupTable()}
	return []storage.ConfigFile{
		{Name: topicsFile, Text: wire.MarshalBody(topics)},
		{Name: groupsFile, Text: wire.MarshalBody(groups)},
		{Name: offsetsFile, Text: wire.MarshalBody(b.offsetTable())},
	}
}

// importConfig takes the tables of a Java broker whose log has no metadata
// records. They are published as a checkpoint at the first mastership; until then
// they change nothing, because the state is a function of the log alone. A table
// that does not read is an error: going on without it would lose it for ever.
func (b *Broker) importConfig(files []storage.ConfigFile) error {
	b.imports = nil
	for _, file := range files {
		entries, err := importFile(file)
		if err != nil {
			return fmt.Errorf("config/%s of the store cannot be read (repair it, or remove it to start without it): %w", file.Name, err)
		}
		b.imports = append(b.imports, entries...)
	}
	b.imports = slices.DeleteFunc(b.imports, func(e metaEntry) bool {
		return e.kind == metaPutTopic && b.systemTopic(e.name) || e.kind == metaPutGroup && systemGroup(e.name)
	})
	return nil
}

// importFile reads one JSON table as entries, in order of names.
func importFile(file storage.ConfigFile) ([]metaEntry, error) {
	switch file.Name {
	case topicsFile:
		return importTopics(file.Text)
	case groupsFile:
		return importGroups(file.Text)
	case offsetsFile:
		return importOffsets(file.Text)
	}
	return nil, fmt.Errorf("no table of this name is known")
}

func importTopics(text []byte) (out []metaEntry, err error) {
	var t wire.TopicConfigWrapper
	if err = wire.UnmarshalBody(text, &t); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(t.TopicConfigTable) {
		c := t.TopicConfigTable[name]
		if why := checkTopicName(name); why != "" || c.TopicName != name {
			return nil, fmt.Errorf("topic %s: %s", quoteShort(name), why)
		}
		out = append(out, metaEntry{kind: metaPutTopic, name: name, config: c})
	}
	return append(out, metaEntry{kind: metaTopicVersion, version: t.DataVersion}), nil
}

func importGroups(text []byte) (out []metaEntry, err error) {
	var t wire.GroupConfigWrapper
	if err = wire.UnmarshalBody(text, &t); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(t.Groups) {
		c := t.Groups[name]
		if why := checkName("group", name, maxSystemTopicName); why != "" || c.GroupName != name {
			return nil, fmt.Errorf("group %s: %s", quoteShort(name), why)
		}
		out = append(out, metaEntry{kind: metaPutGroup, name: name, group: c})
	}
	return append(out, metaEntry{kind: metaGroupVersion, version: t.DataVersion}), nil
}

func importOffsets(text []byte) (out []metaEntry, err error) {
	var t wire.ConsumerOffsets
	if err = wire.UnmarshalBody(text, &t); err != nil {
		return nil, err
	}
	for _, row := range sortedKeys(t.OffsetTable) {
		topic, group, ok := strings.Cut(row, "@")
		if !ok || topic == "" || group == "" {
			return nil, fmt.Errorf("row %s is not topic@group", quoteShort(row))
		}
		for _, queue := range sortedQueues(t.OffsetTable[row]) {
			off := t.OffsetTable[row][queue]
			if queue < 0 || queue >= maxQueues || off < 0 {
				return nil, fmt.Errorf("row %s: queue %d has offset %d", quoteShort(row), queue, off)
			}
			out = append(out, metaEntry{kind: metaPutOffset, name: group, topic: topic, queue: queue, offset: off})
		}
	}
	return append(out, metaEntry{kind: metaOffsetVersion, version: t.DataVersion}), nil
}

func sortedQueues(m map[int32]int64) []int32 {
	keys := make([]int32, 0, len(m))
	for k := range m { // tidy:unordered the keys are sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
