package toy

import "slices"

// Faults are the ways in which the node can be wrong. All but the last ones carry
// the name under which the stand-in must report them.
var Faults = []string{
	// kafka
	"inconsistent-offsets", "duplicate", "lost-write", "unseen", "G1a", "int-poll-skip", "int-nonmonotonic-poll", "poll-skip",
	"nonmonotonic-poll", "nonmonotonic-send", "G1c-process", "G1c-realtime", "start-skip", "start-before", "unknown-message",
	"committed-above", "committed-unknown", "lost-commit",
	// the other workloads
	"nonlinearizable", "lost", "duplicated", "stale", "unexpected", "duplicate-id", "echo-mismatch", "no-success", "unavailable",
	// the process: forgets its log when it starts, writes no JSON, exits, sends to nobody, answers too much
	"forgetful", "bad-line", "exit", "unknown-name", "extra-key",
}

// Known reports whether there is such a fault.
func Known(fault string) bool { return slices.Contains(Faults, fault) }
