// Package bench measures the product's daemons as processes on this machine:
// acknowledged messages a second under several kinds of load, beside what a
// minimal server of three processes does on the same disk and loopback in the
// same run, and the memory of the daemons. It drives both with one load generator
// that speaks raw frames, so that the client costs as little as it can.
//
// Figures are of this machine at this moment; the ratio to the baseline, and the
// processor time a message takes, say more than the absolute numbers.
package bench
