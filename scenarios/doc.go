// Package scenarios holds the drills: a cluster drawn from a seed, a workload,
// faults, named assertions and a verdict. A drill runs in the simulator for any
// seed and, where it says so, on real processes; both report in one schema.
//
//	setup.go     what a run draws: size, policies, timeouts; printed first
//	cluster.go   the nodes of a setup in a simulated world
//	workload.go  producers and consumers, and the history they leave
//	judge.go     the judges wired to the world; truth.go what they may look at
//	drill.go     what a drill is; drill_*.go the drills
//	run.go       one run from a seed or a plan to a report
//	report.go    the schema of reports
package scenarios
