package checker

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// CASKind is an operation on a register with compare-and-set.
type CASKind uint8

// The operations on such a register.
const (
	CASRead CASKind = iota + 1
	CASWrite
	CASSwap
)

// CASOp is one operation on one register that starts out empty. Operations that
// failed definitely are not part of a history.
type CASOp struct {
	Client int
	Kind   CASKind
	Invoke int64
	Return int64 // Open while unknown
	Value  int64 // written, swapped in, or read
	From   int64 // CASSwap: expected
	Any    bool  // CASRead: the answer was null, which fits every state
}

// Linearity is whether some order explains a history.
type Linearity uint8

// The answers. Undecided means that the search hit its time limit.
const (
	Linearizable Linearity = iota + 1
	NotLinearizable
	Undecided
)

// CheckCAS looks for an order of the operations that explains every answer. An
// operation whose Return is Open may act at any time after its invocation, or
// never; limit bounds the search.
func CheckCAS(ops []CASOp, limit time.Duration) Linearity {
	history := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Invoke, Return: op.Return})
	}
	switch porcupine.CheckOperationsTimeout(casModel, history, limit) {
	case porcupine.Ok:
		return Linearizable
	case porcupine.Unknown:
		return Undecided
	}
	return NotLinearizable
}

// casState is the value of the register, and whether it has one.
type casState struct {
	value int64
	set   bool
}

var casModel = porcupine.Model{
	Init: func() any { return casState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(casState), input.(CASOp)
		next := casState{op.Value, true}
		switch {
		case op.Kind == CASRead:
			return op.Any || s == next, s
		case op.Kind == CASWrite, s == casState{op.From, true}:
			return true, next
		}
		// An unknown swap that does not fit has failed by then: nobody saw it.
		return op.Return == Open, s
	},
	Equal: func(a, b any) bool { return a == b },
}
