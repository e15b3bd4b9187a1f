package host

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/internal/event"
)

// The number of a lease is its generation, not an amount.
func TestEventFields(t *testing.T) {
	for kind, want := range map[event.Kind]string{event.LeaseExpired: "generation=7", event.LeaseInstalled: "generation=7", event.LeaseGranted: "generation=7", event.Started: "count=7"} {
		if got := fmt.Sprint(attrsOf(&event.Event{Kind: kind, Count: 7})); !strings.Contains(got, want) {
			t.Errorf("%v: %s, want %s", kind, got, want)
		}
	}
}
