package event

import (
	"strings"
	"testing"

	"lockstep/internal/ha"
)

// TestNames: every kind has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]Kind{}
	for k := None; k < numKinds; k++ {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
		if old, dup := seen[k.String()]; dup {
			t.Errorf("kinds %d and %d are both called %s", old, k, k)
		}
		seen[k.String()] = k
	}
	if Mark.String() != "Mark" || numKinds.String() != "Kind?" {
		t.Errorf("names are shifted: %s, %s", Mark, numKinds)
	}
}

func TestString(t *testing.T) {
	e := Event{Kind: Elected, Group: "broker-a", Broker: 2, Epoch: 3, SetEpoch: 7, Set: ha.NewIDs(2), Text: "clean"}
	want := `Elected group=broker-a broker=2 epoch=3 set-epoch=7 set={2} text="clean"`
	if e.String() != want {
		t.Errorf("got %s, want %s", e, want)
	}
	if s := (Event{Kind: Started}).String(); strings.Contains(s, "=") {
		t.Errorf("empty fields are printed: %s", s)
	}
}
