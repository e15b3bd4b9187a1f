package checker

import (
	"time"

	"github.com/anishathalye/porcupine"

	"lockstep/internal/ha"
)

// RegisterKind is an operation on a group's controller record.
type RegisterKind uint8

// The operations on the record.
const (
	RegisterRead  RegisterKind = iota + 1
	RegisterAlter              // conditional write of the set
	RegisterElect              // committed election: master, epoch and set change
)

// RegisterState is the group's record as clients can see it.
type RegisterState struct {
	Master   ha.BrokerID
	Epoch    ha.MasterEpoch
	SetEpoch ha.SetEpoch
	Set      string // IDs.String, so that states compare
}

// RegisterOp is one operation, in world time.
type RegisterOp struct {
	Client int
	Kind   RegisterKind
	Invoke int64
	Return int64 // Open while unknown
	Status Status
	// Alter: the base it was made at, and the set wanted. Elect and Read: what came out.
	Base   RegisterState
	Result RegisterState
	// Rebuilt marks the first election of a record that the controllers had lost:
	// brokers remember epochs, nobody remembers set epochs.
	Rebuilt bool
}

// CheckRegister checks a group's record as a linearizable register with
// conditional writes; unknown outcomes stay open. An undecided check is a finding.
func CheckRegister(group string, ops []RegisterOp, limit time.Duration) []Finding {
	if len(ops) == 0 {
		return []Finding{finding("register", "vacuous", 0, "no operation on the record of %s", group)}
	}
	history := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		if op.Status == Refused {
			continue // definitely nothing happened: nothing to place
		}
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Output: op.Result, Call: op.Invoke, Return: op.Return})
	}
	switch porcupine.CheckOperationsTimeout(registerModel, history, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Finding{finding("register", "undecided", 0, "record of %s: %d operations not decided in %v", group, len(history), limit)}
	}
	return []Finding{finding("register", "not-linearizable", 0, "record of %s: no order explains its %d operations", group, len(history))}
}

var registerModel = porcupine.Model{
	Init: func() any { return RegisterState{} },
	Step: func(state, input, output any) (bool, any) {
		s, op, out := state.(RegisterState), input.(RegisterOp), output.(RegisterState)
		switch op.Kind {
		case RegisterRead:
			return out == s, s
		case RegisterElect:
			return out.Epoch > s.Epoch && (out.SetEpoch > s.SetEpoch || op.Rebuilt), out
		}
		applies := op.Base.Master == s.Master && op.Base.Epoch == s.Epoch && op.Base.SetEpoch == s.SetEpoch
		next := RegisterState{Master: s.Master, Epoch: s.Epoch, SetEpoch: s.SetEpoch + 1, Set: op.Base.Set}
		if op.Status == Unknown {
			if applies {
				return true, next
			}
			return true, s // it may never have happened
		}
		return applies && out == next, next
	},
	Equal: func(a, b any) bool { return a == b },
}
