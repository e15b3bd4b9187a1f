package checker

import (
	"testing"
	"time"
)

func state(master int64, epoch, setEpoch int32, set string) RegisterState {
	return RegisterState{Master: idOf(master), Epoch: epochOf(epoch), SetEpoch: setEpochOf(setEpoch), Set: set}
}

func TestRegisterJudge(t *testing.T) {
	elect := func(at int64, s RegisterState) RegisterOp {
		return RegisterOp{Client: 0, Kind: RegisterElect, Invoke: at, Return: at + 1, Status: Done, Result: s}
	}
	alter := func(client int, invoke, ret int64, status Status, base RegisterState, set string) RegisterOp {
		base.Set = set
		out := base
		out.SetEpoch++
		return RegisterOp{Client: client, Kind: RegisterAlter, Invoke: invoke, Return: ret, Status: status, Base: base, Result: out}
	}
	get := func(client int, invoke, ret int64, s RegisterState) RegisterOp {
		return RegisterOp{Client: client, Kind: RegisterRead, Invoke: invoke, Return: ret, Status: Done, Result: s}
	}
	one := state(1, 1, 1, "{1}")
	cases := []struct {
		name string
		ops  []RegisterOp
		want string
	}{
		{"good", []RegisterOp{elect(0, one), alter(1, 5, 9, Done, one, "{1 2}"), get(2, 10, 11, state(1, 1, 2, "{1 2}"))}, ""},
		{"unknown alter took effect late", []RegisterOp{elect(0, one), alter(1, 5, Open, Unknown, one, "{1 2}"), get(2, 6, 7, one), get(2, 10, 11, state(1, 1, 2, "{1 2}"))}, ""},
		{"unknown alter never took effect", []RegisterOp{elect(0, one), alter(1, 5, Open, Unknown, one, "{1 2}"), get(2, 90, 91, one)}, ""},
		{"unknown taken as failed", []RegisterOp{elect(0, one), alter(1, 5, 9, Refused, one, "{1 2}"), get(2, 10, 11, state(1, 1, 2, "{1 2}"))}, "not-linearizable"},
		{"stale read", []RegisterOp{elect(0, one), alter(1, 5, 9, Done, one, "{1 2}"), get(2, 10, 11, one)}, "not-linearizable"},
		{"two alters at one base", []RegisterOp{elect(0, one), alter(1, 5, 9, Done, one, "{1 2}"), alter(2, 5, 9, Done, one, "{1 3}")}, "not-linearizable"},
		{"epoch reused", []RegisterOp{elect(0, one), elect(5, state(2, 1, 2, "{2}"))}, "not-linearizable"},
		{"empty", nil, "vacuous"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := CheckRegister("g", c.ops, 5*time.Second)
			got := ""
			if len(found) > 0 {
				got = found[0].Name
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
