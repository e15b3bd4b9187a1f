package sim

import (
	"strings"

	"lockstep/internal/event"
)

// FaultKind names what a fault does. The names are those of plan files.
type FaultKind string

// Faults of processes. Nodes names the victims; For is how long they stay so
// (0: for good, or until a later start).
const (
	CrashExit   FaultKind = "crash"        // the process dies, the kernel lives: peers get resets, the page cache stays
	CrashSilent FaultKind = "crash-silent" // the host goes silent without a word; its page cache survives
	PowerLoss   FaultKind = "power-loss"   // silent, and unsynced pieces are lost at random; Arg -1 loses all of them, -2 none
	Start       FaultKind = "start"        // a node that is down is started
	Stop        FaultKind = "stop"         // SIGTERM: graceful stop; started again after For
	Pause       FaultKind = "pause"        // SIGSTOP: clock runs, kernel answers, nothing is processed
	Suspend     FaultKind = "suspend"      // the machine sleeps: clock runs, nothing answers
	SlowCPU     FaultKind = "slow-cpu"     // every batch takes Arg times as long, up to maxCPUTimes
	WipeDisk    FaultKind = "wipe-disk"    // the node is killed (if up) and its disk replaced by an empty one; started again after For
)

// maxCPUTimes bounds how slow a processor is, also when faults overlap: beyond it one
// batch would take seconds, and that is a pause, which is a fault of its own.
const maxCPUTimes = 10_000

// Faults of disks. Arg as said.
const (
	DiskSlow     FaultKind = "disk-slow"      // operations take Arg times as long
	DiskStall    FaultKind = "disk-stall"     // nothing completes until For is over
	DiskEIO      FaultKind = "disk-eio"       // operations on files whose name contains Text fail with an I/O error; Arg = how many (0: all)
	DiskReadOnly FaultKind = "disk-read-only" // writes, syncs and directory changes fail
	DiskFull     FaultKind = "disk-full"      // writes and allocations fail with no space
	DiskSyncDrop FaultKind = "disk-sync-drop" // the next sync fails and drops the dirty pages; later ones succeed (Arg = how many fail, 0: one)
	DiskLies     FaultKind = "disk-lies"      // syncs succeed and make nothing durable
	DiskRot      FaultKind = "disk-rot"       // Arg bytes (0: one) of durable content in files whose name contains Text change
)

// Faults of the network, between the nodes that Shape relates.
const (
	Cut       FaultKind = "cut"       // packets are lost: streams stall, dials time out
	Stall     FaultKind = "stall"     // packets are held and come as a burst afterwards
	Refuse    FaultKind = "refuse"    // dials are refused, streams live on
	Reset     FaultKind = "reset"     // all streams are reset, each cut at a drawn byte
	HalfOpen  FaultKind = "half-open" // all present streams fall silent for good; new ones work
	Delay     FaultKind = "delay"     // every frame takes Arg nanoseconds longer
	Loss      FaultKind = "loss"      // Arg permille of frames need retransmissions
	Corrupt   FaultKind = "corrupt"   // Arg permille of frames have a bit flipped (codec is in the loop there)
	Bandwidth FaultKind = "bandwidth" // links carry Arg bytes per second
)

// Faults of clocks.
const (
	WallStep    FaultKind = "wall-step"    // the wall clock jumps by Arg milliseconds
	ClockDrift  FaultKind = "clock-drift"  // the clocks run Arg parts per million fast (negative: slow)
	ClockFreeze FaultKind = "clock-freeze" // the monotonic clock stands still while the node runs on, beyond any contract
)

// Action is an operator's or scenario's own step: Text names a handler that
// was registered with World.Handle.
const Action FaultKind = "action"

// Shape says which ordered pairs of nodes a network fault touches.
type Shape string

// The shapes. Sides are groups of nodes; nodes in no side are not touched, so
// a bridge is a node left out of both sides of a split.
const (
	Split Shape = "split" // every pair from two different sides, both ways
	Away  Shape = "away"  // from every node of side 1 to every node of side 2, that way only
	Ring  Shape = "ring"  // side 1 in a circle: each reaches its two neighbours alone
)

// Trigger says when a fault fires.
type Trigger struct {
	// At is the true time in nanoseconds, when Kind is event.None.
	At int64
	// Kind, Text, Node, K: at the K-th event of that kind (for event.Mark and others
	// also with that Text, "" for any) at node Node ("" for any).
	Kind event.Kind
	Text string
	Node string
	K    int
	// Delay is added, nanoseconds.
	Delay int64
	// DiskStep > 0 waits further for the DiskStep-th file operation of the first
	// target after that, and fires in the middle of it (crash faults only).
	DiskStep int
}

// Fault is one entry of a plan.
type Fault struct {
	Kind  FaultKind
	Nodes []string   // targets of process, disk, clock and action faults
	Shape Shape      // network faults
	Sides [][]string // network faults
	When  Trigger
	For   int64 // nanoseconds; 0 is an instant, or for good
	Arg   int64
	Text  string

	// Fired, Refused and Ended are results: when it fired (true time + 1, 0 never),
	// why the world would not, and whether its duration is over.
	Fired   int64
	Refused string
	Ended   bool
}

// Network reports whether the fault is between nodes.
func (k FaultKind) Network() bool {
	switch k {
	case Cut, Stall, Refuse, Reset, HalfOpen, Delay, Loss, Corrupt, Bandwidth:
		return true
	}
	return false
}

// Destructive reports whether the fault can destroy bytes that were durable,
// so that only victims of the era may suffer it (fault budget).
func (k FaultKind) Destructive() bool {
	switch k {
	case WipeDisk, DiskRot, DiskLies, DiskSyncDrop:
		return true
	}
	return false
}

// Kills reports whether the fault ends a process at once.
func (k FaultKind) Kills() bool { return k.kills() }

// Lasts reports whether the fault has something to take back at its end.
func (k FaultKind) Lasts() bool { return k.lasts() }

// Pairs lists the ordered pairs of nodes, from and to, that a network fault is
// between.
func (f *Fault) Pairs() (out [][2]string) {
	switch f.Shape {
	case Ring:
		ring := f.Sides[0]
		for i, a := range ring {
			for j, b := range ring {
				d := (j - i + len(ring)) % len(ring)
				if d != 0 && d != 1 && d != len(ring)-1 {
					out = append(out, [2]string{a, b})
				}
			}
		}
	case Away:
		for _, a := range f.Sides[0] {
			for _, b := range f.Sides[1] {
				out = append(out, [2]string{a, b})
			}
		}
	default:
		for i, side := range f.Sides {
			for j, other := range f.Sides {
				for _, a := range side {
					for _, b := range other {
						if i != j {
							out = append(out, [2]string{a, b})
						}
					}
				}
			}
		}
	}
	return out
}

// Kinds lists all fault kinds in a fixed order.
func Kinds() []FaultKind {
	return []FaultKind{CrashExit, CrashSilent, PowerLoss, Start, Stop, Pause, Suspend, SlowCPU, WipeDisk,
		DiskSlow, DiskStall, DiskEIO, DiskReadOnly, DiskFull, DiskSyncDrop, DiskLies, DiskRot,
		Cut, Stall, Refuse, Reset, HalfOpen, Delay, Loss, Corrupt, Bandwidth,
		WallStep, ClockDrift, ClockFreeze, Action}
}

// Target prints the nodes or sides of the fault.
func (f *Fault) Target() string {
	if !f.Kind.Network() {
		return strings.Join(f.Nodes, ",")
	}
	parts := make([]string, len(f.Sides))
	for i, s := range f.Sides {
		parts[i] = strings.Join(s, ",")
	}
	sep := "|"
	if f.Shape == Away {
		sep = ">"
	}
	if f.Shape == Ring {
		return "ring:" + strings.Join(parts, "|")
	}
	return strings.Join(parts, sep)
}
