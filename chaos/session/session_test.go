package session

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// recorded is a session of the stock Go client, recorded by "drill session".
const recorded = "testdata/go-client.jsonl"

func load(t *testing.T) []Exchange {
	t.Helper()
	f, err := os.Open(recorded)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := Read(f)
	if err != nil || len(list) < len(Checklist) {
		t.Fatalf("%d exchanges, %v", len(list), err)
	}
	return list
}

// TestRecordedSession ticks the checklist off the recording.
func TestRecordedSession(t *testing.T) {
	for _, why := range Unticked(load(t)) {
		t.Error(why)
	}
}

// TestNothingUnsupported: the stock client asks for nothing that is refused as
// unknown.
func TestNothingUnsupported(t *testing.T) {
	for _, e := range load(t) {
		if e.Response == 3 {
			t.Errorf("%s (%d) to the %s is not supported", e.Name, e.Request, e.To)
		}
	}
}

// TestChecklistNotices: without an exchange, with another answer, or without a
// field of the answer, an item is not ticked.
func TestChecklistNotices(t *testing.T) {
	list := load(t)
	for i, item := range Checklist {
		without := slices.DeleteFunc(slices.Clone(list), func(e Exchange) bool { return e.Request == item.Request })
		if got := Unticked(without); len(got) != 1 || !strings.HasPrefix(got[0], item.Step) {
			t.Errorf("item %d is ticked without its exchange: %v", i, got)
		}
		if len(item.Answers) == 0 {
			continue
		}
		wrong := slices.Clone(list)
		for k := range wrong {
			if wrong[k].Request == item.Request {
				wrong[k].Response = 2
			}
		}
		if got := Unticked(wrong); len(got) != 1 {
			t.Errorf("item %d is ticked with another answer: %v", i, got)
		}
	}
}

// TestWriteRead: the file format keeps everything.
func TestWriteRead(t *testing.T) {
	list := load(t)
	var b bytes.Buffer
	if err := Write(&b, list); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&b)
	if err != nil || len(again) != len(list) || again[0].Name != list[0].Name || !slices.Equal(again[1].Ext, list[1].Ext) {
		t.Errorf("%v, %v", again, err)
	}
}
