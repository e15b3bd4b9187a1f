package chaos

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
)

// TestJournal: an unfinished last line is still being written; an error is
// unknown, never failed.
func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j.jsonl")
	text := `{"kind":"send","client":3,"key":"k-1","queue":"g/T/0","offset":5,"invoke":10,"return":20,"status":"done"}
{"kind":"send","client":4,"key":"k-2","invoke":11,"return":30,"status":"unknown","error":"timeout"}
{"kind":"read","client":1000,"key":"k-1","queue":"g/T/0","offset":5,"invoke":40,"return":40,"status":"done"}
{"kind":"send","cli`
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ops, err := readJournal(name)
	if err != nil || len(ops) != 3 {
		t.Fatalf("%d operations, %v", len(ops), err)
	}
	if ops[1].Status != checker.Unknown || ops[1].Return != checker.Open || ops[2].Kind != checker.Read {
		t.Errorf("got %+v", ops)
	}
	if err := os.WriteFile(name, []byte("not json\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readJournal(name); err == nil {
		t.Error("a line that is no outcome is taken")
	}
}

// record is a stored message by hand from the layout.
func record(key string, log int64, offset int64) []byte {
	props := "KEYS\x01" + key + "\x02"
	b := make([]byte, 91+len(topic)+len(props))
	be := binary.BigEndian
	be.PutUint32(b, uint32(len(b)))
	be.PutUint32(b[4:], 0xDAA320A7)
	be.PutUint64(b[20:], uint64(offset))
	be.PutUint64(b[28:], uint64(log))
	at := 88
	b[at] = byte(len(topic))
	copy(b[at+1:], topic)
	at += 1 + len(topic)
	be.PutUint16(b[at:], uint16(len(props)))
	copy(b[at+2:], props)
	return b
}

// TestSegment: the log is read to its last whole record at its own place, and
// bytes left over from before a truncation are not.
func TestSegment(t *testing.T) {
	a := record("k-1", 1000, 0)
	b := record("k-2", 1000+int64(len(a)), 1)
	stale := record("old", 77, 2)
	out := map[string][]checker.Entry{}
	end := readSegment(append(append(append([]byte{}, a...), b...), stale...), 1000, out)
	q := group + "/" + topic + "/0"
	if end != ha.LogOffset(1000+len(a)+len(b)) || len(out[q]) != 2 || out[q][1].Key != "k-2" {
		t.Errorf("end %d, %v", end, out)
	}
	blank := append(append([]byte{}, a...), 0, 0, 0, 40, 0xCB, 0xD4, 0x31, 0x94)
	if end := readSegment(blank, 1000, out); end != ha.LogOffset(1000+len(blank)) {
		t.Errorf("padding ends at %d", end)
	}
}

// TestLogLines: events come back from a daemon's log; other lines do not.
func TestLogLines(t *testing.T) {
	d := &daemon{name: "broker-0", kind: "broker"}
	e, ok := parseEvent([]byte(`{"time":"2026-11-30T19:13:30.838509648Z","level":"INFO","msg":"Elected","node":"n0","group":"g","broker":2,"epoch":2,"setEpoch":4,"set":[2]}`), d)
	if !ok || e.Kind != event.Elected || e.Epoch != 2 || e.Set.String() != "{2}" || e.At == 0 {
		t.Errorf("got %+v, %v", e, ok)
	}
	if _, ok := parseEvent([]byte(`{"time":"2026-11-30T19:13:30Z","msg":"serving"}`), d); ok {
		t.Error("a line that is no event is one")
	}
	if e, _ := parseEvent([]byte(`{"time":"2026-11-30T19:13:30Z","msg":"Serving","epoch":1}`), d); e.Group != group {
		t.Errorf("a broker's event without group is of %q", e.Group)
	}
}
