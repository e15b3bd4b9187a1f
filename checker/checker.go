// Package checker is the independent judge: it reads histories of clients, typed
// events and the true contents of disks, and knows no node code. Each judge
// returns findings; no findings from a judge that had nothing to look at is
// itself a finding (vacuous), and an undecided check is a failure.
package checker

import (
	"fmt"
	"sort"
)

// Finding is one broken promise.
type Finding struct {
	Judge string // "ledger", "queue", "register", "invariant", "activity", "liveness"
	Name  string // stable name of the kind of breach, for shrinking and tables
	Text  string
	At    int64 // nanoseconds of world time; 0 when it has no instant
}

// String prints the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s/%s at %.3fs: %s", f.Judge, f.Name, float64(f.At)/1e9, f.Text)
}

func finding(judge, name string, at int64, format string, args ...any) Finding {
	return Finding{Judge: judge, Name: name, Text: fmt.Sprintf(format, args...), At: at}
}

// sortedKeys returns the keys of m in ascending order.
func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	return keys
}
