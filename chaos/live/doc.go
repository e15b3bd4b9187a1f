// Package live runs the drills of package scenarios in one process for real: every
// node is a host.Node with TCP sessions on loopback, its stores are files, and its
// clock is CLOCK_BOOTTIME. Faults come from the same plans as in the simulator and
// the same judges look on.
//
// Three things make that possible.
//
// Pace: the clock of the nodes runs a fixed number of times as fast as the real
// one, so that every time-out, lease and timer of a machine, every instant of a
// plan and every limit of an assertion is scaled by one factor, and none of them
// has to know.
//
// Turns: the loops of all nodes share one lock, held for a batch and free while a
// loop sleeps. Sessions, writers and disk lanes run beside each other as ever, but
// what machines do has one true order, in which the judges see it, and a judge may
// look at any machine.
//
// Relays and shadows: every connection between two nodes passes a relay that
// holds, delays, damages or resets it; every file operation is also done in a
// vfs.Mem, which knows what was synced, and whose faults and crashes the real files
// follow.
package live
