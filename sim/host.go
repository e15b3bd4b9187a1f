package sim

import (
	"lockstep/internal/decide"
	"lockstep/internal/prng"
	"lockstep/netsim"
	"lockstep/node"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// state of a node's process.
type state uint8

const (
	stateOff     state = iota
	stateBooting       // a start is under way
	stateUp
)

// input is one fact that waits for the machine.
type input struct {
	kind inputKind
	fact netsim.Fact
	slot uint32 // inputDisk: operation slot
}

type inputKind uint8

const (
	inputNet inputKind = iota
	inputDisk
	inputStop
)

// host is one simulated computer with the process that runs on it: what the
// real host is to a machine, plus everything that can happen to it.
type host struct {
	index   int
	spec    NodeSpec
	actor   decide.Actor
	nameSum uint64
	clock   clock
	disk    *vfs.Mem

	life     int
	state    state
	machine  node.Machine
	prepare  node.Preparer // the machine, when it has something to prepare
	doer     Doer
	app      App
	prompt   Prompt       // the App, when it is one
	rand     *prng.Source // of the life: boot and crypto/rand
	peers    map[node.SessionID]node.Peer
	stopping bool // a graceful stop was asked for

	inbox     []input // head first
	head      int
	batches   int64 // of this life
	busyUntil int64
	runAt     int64     // time of the outstanding evRun, -1 none
	wakeAt    int64     // time of the outstanding evWake, -1 none
	bootAt    int64     // time of the outstanding evBoot, -1 none
	deadline  node.Time // of the machine, after its last Settle
	dueAt     int64     // true time of the machine's or App's deadline
	lingered  bool
	queued    bool // in World.ready
	urgent    bool // Settle is wanted without news: the App gave work, or the life is new
	spins     int
	fx, again node.Effects

	// What faults do to it; counts and sums, because faults overlap.
	paused, stalled int
	cpuTimes        int64  // factor on batches, 1 is normal
	diskTimes       int64  // factor on disk latencies, 1 is normal
	held            int    // crash faults that keep it down
	healed          bool   // in the core of phase B
	armed           *Fault // a crash that waits for a file operation
	panicked        bool   // the life ended by a panic: its code is not run again
	damage          damage

	watched []sent // frames to look at again

	lanes  [storage.NumLanes]lane
	ops    int64    // operations of this life without a better key
	frozen []uint32 // operation slots whose events came while the disk stalled
	sub    [numSubs]uint64
}

// pending is the number of facts that wait.
func (n *host) pending() int { return len(n.inbox) - n.head }

// take removes the oldest waiting fact.
func (n *host) take() input {
	in := n.inbox[n.head]
	n.inbox[n.head] = input{}
	n.head++
	if n.head == len(n.inbox) {
		n.inbox, n.head = n.inbox[:0], 0
	}
	return in
}

// key is the key of a choice about the n-th thing of that kind in this life.
func (n *host) key(kind int32, k int64) decide.Key {
	return decide.Key{From: n.actor, Session: uint32(n.life), Kind: kind, N: k}
}

// Node is a scenario's and a judge's view of one node: the truth, whatever the
// machine believes.
type Node struct{ n *host }

// Name is the node's name.
func (v Node) Name() string { return v.n.spec.Name }

// Zone is the node's fault domain.
func (v Node) Zone() string { return v.n.spec.Zone }

// Up reports whether its machine runs (it may be paused).
func (v Node) Up() bool { return v.n.state == stateUp }

// Paused reports whether it processes nothing just now.
func (v Node) Paused() bool { return v.n.paused > 0 }

// Life is the ordinal of its latest life, 0 before the first.
func (v Node) Life() int { return v.n.life }

// Machine is the running machine, nil while the node is down.
func (v Node) Machine() node.Machine { return v.n.machine }

// Store is what executes the running life's disk operations, nil while down.
func (v Node) Store() Doer { return v.n.doer }

// Disk is the node's disk, for truth about bytes.
func (v Node) Disk() *vfs.Mem { return v.n.disk }

// Peer is the far end of an open session of the running machine.
func (v Node) Peer(s node.SessionID) (p node.Peer, ok bool) {
	p, ok = v.n.peers[s]
	return p, ok
}

// App is what drives the running machine, nil when none.
func (v Node) App() App { return v.n.app }

// Held reports whether a fault keeps the node down or paused.
func (v Node) Held() bool { return v.n.held > 0 || v.n.paused > 0 }
