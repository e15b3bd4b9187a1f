package controller

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/node/wire"
)

// Commands are the entries of the controllers' log. Each is conditional and is
// evaluated when it is applied, never on the proposer's memory (P3), so that a
// command which waited, or was proposed twice, does what its conditions say at its
// place in the log. Everything an evaluation needs that is not replicated state —
// who is alive, what candidates reported — is in the command: applying reads no
// clock and gives the same result on every controller.

// commandVersion is the first byte of every command.
const commandVersion = 1

// commandKind is the second byte.
type commandKind uint8

// The kinds. Numbers are part of the log format and are never reused.
const (
	kindApplyID  commandKind = 1
	kindRegister commandKind = 2
	kindAlter    commandKind = 3
	kindElect    commandKind = 4
	kindClean    commandKind = 5
	kindWrite    commandKind = 6
	kindSwap     commandKind = 7
)

// command is one conditional change of the state.
type command interface {
	kind() commandKind
	put(w *writer)
	apply(s *State) outcome
}

// outcome is what a command did: a response code, a remark that says why not, and
// the events that follow from it.
type outcome struct {
	code   int32
	remark string
	events []event.Event
}

func (o outcome) ok() bool { return o.code == wire.CodeSuccess }

func refused(code int32, format string, args ...any) outcome {
	return outcome{code: code, remark: fmt.Sprintf(format, args...)}
}

// with adds an event.
func (o outcome) with(e event.Event) outcome {
	o.events = append(o.events, e)
	return o
}

// origin identifies one proposal: a node leads a term at most once, so (node,
// term, sequence) is never used twice, also across restarts.
type origin struct {
	node     uint64 // raft id of the proposer
	term     uint64
	sequence uint64
}

// encodeCommand lays out an entry: version, kind, origin, body.
func encodeCommand(o origin, c command) []byte {
	w := writer{b: []byte{commandVersion, byte(c.kind())}}
	w.uint(o.node)
	w.uint(o.term)
	w.uint(o.sequence)
	c.put(&w)
	return w.b
}

// decodeCommand is the inverse of encodeCommand.
func decodeCommand(b []byte) (origin, command, error) {
	r := newReader(b)
	if v := r.Byte(); v != commandVersion && r.Err == nil {
		return origin{}, nil, fmt.Errorf("command of version %d, this build reads %d: upgrade every controller before using new features", v, commandVersion)
	}
	kind := commandKind(r.Byte())
	o := origin{r.uint(), r.uint(), r.uint()}
	var c command
	switch kind {
	case kindApplyID:
		c = readApplyID(&r)
	case kindRegister:
		c = readRegister(&r)
	case kindAlter:
		c = readAlter(&r)
	case kindElect:
		c = readElect(&r)
	case kindClean:
		c = readClean(&r)
	case kindWrite:
		c = &writeRegister{r.text(), r.text()}
	case kindSwap:
		c = &swapRegister{r.text(), r.text(), r.text()}
	default:
		return o, nil, fmt.Errorf("command of unknown kind %d", kind)
	}
	if err := r.end("command"); err != nil {
		return o, nil, err
	}
	return o, c, nil
}

// apply evaluates c and checks what it left behind.
func (s *State) apply(c command) outcome {
	out := c.apply(s)
	for i := range s.Groups {
		s.Groups[i].check()
	}
	return out
}
