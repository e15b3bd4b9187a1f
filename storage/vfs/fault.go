package vfs

import (
	"strings"
	"time"
)

// OpKind names one kind of file system operation, for fault hooks and traces.
type OpKind uint8

// The operations. Those that change something count as steps (Mem.OpCount).
const (
	OpNone OpKind = iota
	OpOpen
	OpCreate
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpAllocate
	OpSize
	OpDropCache
	OpRemove
	OpRename
	OpMkdir
	OpList
	OpStat
	OpSyncDir
	OpLock
	OpUsage
	numOpKinds
)

var opNames = [numOpKinds]string{"none", "open", "create", "read", "write", "sync", "truncate",
	"allocate", "size", "dropcache", "remove", "rename", "mkdir", "list", "stat", "syncdir", "lock", "usage"}

// String returns the operation's name as traces print it.
func (k OpKind) String() string {
	if k < numOpKinds {
		return opNames[k]
	}
	return "unknown"
}

// changes reports whether the operation can alter what a crash leaves.
func (k OpKind) changes() bool {
	switch k {
	case OpCreate, OpWrite, OpSync, OpTruncate, OpAllocate, OpRemove, OpRename, OpMkdir, OpSyncDir, OpLock:
		return true
	}
	return false
}

// Op is one operation as a fault hook sees it, before it is performed.
type Op struct {
	Kind    OpKind
	Name    string // file or directory, relative to the root
	NewName string // target of OpRename
	Off     int64  // bytes; the new size for OpTruncate and OpAllocate
	Len     int    // bytes of OpRead and OpWrite
	Step    uint64 // what OpCount returns once the operation is done
}

// Fault is what goes wrong with one operation. The zero value is benign.
type Fault struct {
	// Err is returned by the operation, which is then not performed, up to Done and Pages.
	Err error
	// Done is how many bytes of a read or write happened before Err: a short write.
	Done int
	// Pages is how many dirty pages, lowest offsets first, a failing Sync put on the
	// platter before Err.
	Pages int
	// Drop makes a failing Sync leave all dirty pages readable and clean, though they are
	// not on the platter: the next Sync finds nothing to do and succeeds (ext4, xfs).
	// Without it they stay dirty.
	Drop bool
	// Lie makes Sync or SyncDir return nil without making anything durable: a device
	// that acknowledges from a volatile cache.
	Lie bool
	// Misdirect makes Sync put one dirty page somewhere else on the platter. The page
	// itself stays readable from the cache and is thought clean.
	Misdirect *Misdirect
	// Delay is how long the operation takes beyond the usual. Mem has no clock; it adds
	// the delays up for TakeDelay.
	Delay time.Duration
}

// Misdirect says which dirty page of the synced file lands where.
type Misdirect struct {
	Page int64  // offset of a byte in the page, in the file that is synced
	Name string // durable file that receives it
	Off  int64  // offset of a byte in the page that is overwritten there
}

// Faults is consulted by Mem before every operation. It is called with the lock of the
// Mem held and must not call back into it. To be replayable it must derive its
// answers from the operation, its own plan and counters, and nothing else.
type Faults interface {
	Fault(op Op) Fault
}

// FaultFunc makes a function a Faults.
type FaultFunc func(op Op) Fault

// Fault calls f.
func (f FaultFunc) Fault(op Op) Fault { return f(op) }

// Rule is one planned fault: it fires on occurrences [From, From+Count) of
// operations of one kind on names with a prefix.
type Rule struct {
	Kind   OpKind // OpNone matches every kind
	Prefix string // of the name; "" matches all
	From   int    // first occurrence that fires, counted from 1; 0 means 1
	Count  int    // how many fire; 0 means all from then on (a fault for good)
	Fault  Fault
}

// Rules is a Faults made of planned faults; the first rule that fires decides.
type Rules struct {
	rules []Rule
	seen  []int
	fired []int
}

// NewRules returns the fault plan made of rules.
func NewRules(rules ...Rule) *Rules {
	return &Rules{rules: rules, seen: make([]int, len(rules)), fired: make([]int, len(rules))}
}

// Fault counts op against every rule and returns the first fault that fires.
func (r *Rules) Fault(op Op) Fault {
	var out Fault
	found := false
	for i := range r.rules {
		rule := &r.rules[i]
		if rule.Kind != OpNone && rule.Kind != op.Kind || !strings.HasPrefix(op.Name, rule.Prefix) {
			continue
		}
		r.seen[i]++
		from := max(rule.From, 1)
		if r.seen[i] < from || rule.Count > 0 && r.seen[i] >= from+rule.Count {
			continue
		}
		if !found {
			out, found = rule.Fault, true
			r.fired[i]++
		}
	}
	return out
}

// Fired returns how often rule i decided an operation; a plan whose entries never
// fire is stale.
func (r *Rules) Fired(i int) int { return r.fired[i] }
