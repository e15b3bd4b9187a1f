package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
)

// outcome is one line of the stock client's journal.
type outcome struct {
	Kind   string `json:"kind"`
	Client int    `json:"client"`
	Key    string `json:"key"`
	Queue  string `json:"queue"`
	Offset int64  `json:"offset"`
	Invoke int64  `json:"invoke"`
	Return int64  `json:"return"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

// clientTries is how often the stock client may try one send: each try that
// failed may have left a copy.
const clientTries = 3

// readJournal turns a journal into operations.
func readJournal(name string) ([]checker.Op, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ops []checker.Op
	lines := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return ops, nil // a last line without its end is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		op := checker.Op{Client: o.Client, Kind: checker.Send, Key: o.Key, Queue: o.Queue, Offset: o.Offset, Invoke: o.Invoke, Return: o.Return,
			Status: checker.Done, UnknownTries: clientTries}
		if o.Kind == "read" {
			op.Kind = checker.Read
		} else if o.Status != "done" {
			op.Status, op.Return = checker.Unknown, checker.Open
		}
		ops = append(ops, op)
	}
}

// readLog decodes a broker's commit log from its files, by the judge's decoder,
// and returns its queues and its whole content's end.
func readLog(store string) (map[string][]checker.Entry, ha.LogOffset, error) {
	names, err := filepath.Glob(filepath.Join(store, "commitlog", "*"))
	if err != nil {
		return nil, 0, err
	}
	sort.Strings(names)
	out := map[string][]checker.Entry{}
	end := ha.LogOffset(0)
	for _, name := range names {
		start, err := strconv.ParseInt(filepath.Base(name), 10, 64)
		if err != nil {
			continue // not a segment
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, 0, err
		}
		end = readSegment(raw, ha.LogOffset(start), out)
	}
	for _, entries := range out {
		sort.Slice(entries, func(i, j int) bool { return entries[i].Offset < entries[j].Offset })
	}
	return out, end, nil
}

// readSegment adds a segment's messages of the topic and returns where it ends.
func readSegment(raw []byte, start ha.LogOffset, out map[string][]checker.Entry) ha.LogOffset {
	off := 0
	for off+8 <= len(raw) {
		if raw[off+4] == 0xCB && raw[off+5] == 0xD4 {
			return start + ha.LogOffset(len(raw)) // padding to the end
		}
		rec, err := checker.ParseRecord(raw[off:])
		if err != nil || rec.Log != start+ha.LogOffset(off) {
			break
		}
		if string(rec.Topic) == topic {
			q := fmt.Sprintf("%s/%s/%d", group, rec.Topic, rec.Queue)
			out[q] = append(out[q], checker.Entry{Offset: rec.QueueOffset, Key: rec.Key()})
		}
		off += rec.Size
	}
	return start + ha.LogOffset(off)
}

// logLine is one event of a daemon's log.
type logLine struct {
	Time     string  `json:"time"`
	Msg      string  `json:"msg"`
	Node     string  `json:"node"`
	Group    string  `json:"group"`
	Broker   int64   `json:"broker"`
	Epoch    int32   `json:"epoch"`
	SetEpoch int32   `json:"setEpoch"`
	Set      []int64 `json:"set"`
	Offset   int64   `json:"offset"`
	Offset2  int64   `json:"offset2"`
	Count    int64   `json:"count"`
	Text     string  `json:"text"`
}

var kindByName = func() map[string]event.Kind {
	out := map[string]event.Kind{}
	for k := event.None + 1; k.String() != "Kind?"; k++ {
		out[k.String()] = k
	}
	return out
}()

// readEvents reads the events of all daemons in order of time.
func (c *Cluster) readEvents() ([]event.Event, error) {
	var out []event.Event
	for _, d := range c.daemons {
		f, err := os.Open(d.dir + ".log")
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if e, ok := parseEvent(lines.Bytes(), d); ok {
				out = append(out, e)
			}
		}
		err = lines.Err()
		f.Close() // only read
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", d.name, err)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].At < out[j].At })
	return out, nil
}

func parseEvent(line []byte, d *daemon) (event.Event, bool) {
	var l logLine
	if json.Unmarshal(line, &l) != nil || kindByName[l.Msg] == event.None {
		return event.Event{}, false // a line that is no event
	}
	at, err := parseTime(l.Time)
	if err != nil {
		return event.Event{}, false
	}
	e := event.Event{Kind: kindByName[l.Msg], Node: d.name, At: at, Group: l.Group, Broker: ha.BrokerID(l.Broker), Epoch: ha.MasterEpoch(l.Epoch),
		SetEpoch: ha.SetEpoch(l.SetEpoch), Off: ha.LogOffset(l.Offset), Off2: ha.LogOffset(l.Offset2), Count: l.Count, Text: l.Text}
	for _, id := range l.Set {
		e.Set = append(e.Set, ha.BrokerID(id))
	}
	if e.Group == "" && d.kind == "broker" {
		e.Group = group
	}
	return e, true
}
