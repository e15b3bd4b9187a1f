package check

import (
	"fmt"

	"lockstep/chaos/maelstrom/history"
)

// Names of the first workloads.
const (
	EchoMismatch = "echo-mismatch" // echo answered something else
	DuplicateID  = "duplicate-id"  // unique-ids gave one id twice
)

// Echo demands that every answer is what was asked.
func Echo(ops []*history.Op) Result {
	var c collector
	for _, op := range ops {
		if op.F == history.Echo && op.Type == history.OK && op.Answer != op.Text {
			c.add(EchoMismatch, op, "%s: asked %s, answered %s", name(op), op.Text, op.Answer)
		}
	}
	return c.result("echo")
}

// UniqueIDs demands that no id was given twice.
func UniqueIDs(ops []*history.Op) Result {
	var c collector
	first := map[string]*history.Op{}
	for _, op := range ops {
		if op.F != history.Generate || op.Type != history.OK {
			continue
		}
		if before := first[op.Text]; before != nil {
			c.add(DuplicateID, op, "%s: id %s was given to %s", name(op), op.Text, name(before))
			continue
		}
		first[op.Text] = op
	}
	return c.result("unique-ids", fmt.Sprintf("%d different ids", len(first)))
}
