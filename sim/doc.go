// Package sim is the deterministic world: one heap of events, skewed virtual
// clocks, simulated disks and streams, node lives, keyed decisions, a rolling
// hash over everything, and plans that bring a run back. It runs the same
// machines as the real hosts and takes no protocol decision of its own.
//
// A world is made of Options and a Plan, gets its nodes by Add, its judges by
// Observe, and is driven by Run. One world exists at a time in a process,
// because etcd-raft draws from the process-wide crypto/rand.Reader, which the
// world replaces by a keyed reader until Close.
package sim
