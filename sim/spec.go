package sim

import (
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// Doer executes the blocking operations of one life of a node: storage.Store
// for brokers, the raft store for controllers. The world calls it inline, at the
// instant the operation takes effect on the simulated disk.
type Doer interface {
	Do(op storage.Op) storage.Result
}

// Life says who is being started, for NodeSpec.Boot.
type Life struct {
	Node string
	// Ordinal counts the lives of the node: 1 is the first start.
	Ordinal int
	// Disk is the node's disk; it outlives the life.
	Disk vfs.FS
	Now  node.Now
	// Rand is keyed by seed, node and ordinal: store ids, nonces, boot choices.
	Rand *prng.Source
}

// App drives a machine that serves no network of its own accord, such as a
// client: it submits work and drains outcomes. It lives and dies with its
// machine.
type App interface {
	// Turn runs after each Settle and whenever Deadline has passed. It reports
	// whether it gave the machine work, in which case the machine settles again.
	Turn(now node.Now, m node.Machine) bool
	// Deadline is the next instant at which Turn wants to run, or node.Never.
	Deadline() node.Time
}

// Prompt is an App that runs between the facts of a batch and its Settle, as one
// on the machine's own loop does, so that its work needs no batch of its own.
type Prompt interface {
	App
	// Waits reports whether Settle brought something that Turn would take; Turn then
	// runs in a batch that follows at once.
	Waits(m node.Machine) bool
}

// NodeSpec describes a node of a world.
type NodeSpec struct {
	// Name is unique in the world and made of letters, digits, '-', '_' and '.'.
	Name string
	// Host is the host part of the node's addresses; Name when empty.
	Host string
	// Zone names the fault domain; "" is a zone of its own.
	Zone string
	// Boot opens the node's stores and makes its machine. It runs inline, may do
	// file operations on Life.Disk (a planned crash can hit any of them), and its
	// error ends the life as a refusal to start.
	Boot func(l Life) (node.Machine, Doer, error)
	// App, when set, drives the machine of each life.
	App func(l Life, m node.Machine) App
	// Supervise says whether and after how many nanoseconds the node is started
	// again once it exited by itself. Nil restarts after a drawn delay, except
	// after node.ExitClean, ExitSuspect and ExitRefused.
	Supervise func(code int) (afterNanos int64, again bool)
	// Steady exempts the node from noise on its clock, CPU and batches (judges'
	// and operators' own clients).
	Steady bool
	// Late keeps the node down until a start fault names it.
	Late bool
}
