// Package netsim simulates ordered streams between nodes: dialling and
// listening, latency, loss, stalls and bursts, resets at any byte, half-open
// streams, partitions of every shape, bandwidth, back-pressure and corrupted
// bytes (rows N1–N10 of the feature table). Inside one stream nothing is
// reordered or duplicated, as with TCP.
//
// A Net has no clock and no queue of events of its own: the world calls it with
// the true time, and it asks the world to be called again.
package netsim
