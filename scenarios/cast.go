package scenarios

import (
	"strings"
	"time"

	"lockstep/internal/prng"
	"lockstep/sim"
)

// Cast is what a drill's fault plan is written with: the setup, a keyed source,
// and verbs that make entries. Times count from Ready.
type Cast struct {
	Setup *Setup
	Rnd   *prng.Source
}

func newCast(s *Setup, rnd *prng.Source) *Cast { return &Cast{Setup: s, Rnd: rnd} }

// At is a trigger d after Ready.
func At(d time.Duration) sim.Trigger { return sim.Trigger{At: Ready + int64(d)} }

// Between draws a trigger in [lo, hi] after Ready.
func (c *Cast) Between(lo, hi time.Duration) sim.Trigger {
	return At(time.Duration(c.Rnd.Between(int64(lo), int64(hi))))
}

// Drawn draws a duration in [lo, hi].
func (c *Cast) Drawn(lo, hi time.Duration) time.Duration {
	return time.Duration(c.Rnd.Between(int64(lo), int64(hi)))
}

// actPrefix marks actions whose targets are roles, resolved when they fire. The
// whole entry stands in the action's text, "as:crash @master/a", so that a plan
// file carries it.
const actPrefix = "as:"

// Strike is a fault of processes, disks or clocks against roles ("@master/a",
// "@slave/a/0", "@leader", …) or plain node names.
func Strike(kind sim.FaultKind, when sim.Trigger, lasts time.Duration, targets ...string) *sim.Fault {
	return &sim.Fault{Kind: sim.Action, When: when, For: int64(lasts), Text: actPrefix + string(kind) + " " + strings.Join(targets, ",")}
}

// Sever is a network fault between two sides of roles: both ways for Split, from
// left to right for Away.
func Sever(kind sim.FaultKind, shape sim.Shape, when sim.Trigger, lasts time.Duration, left, right []string) *sim.Fault {
	sep := "|"
	if shape == sim.Away {
		sep = ">"
	}
	text := actPrefix + string(kind) + " " + strings.Join(left, ",") + sep + strings.Join(right, ",")
	return &sim.Fault{Kind: sim.Action, When: when, For: int64(lasts), Text: text}
}

// Isolate cuts each of the targets off from everybody, each other included.
func Isolate(when sim.Trigger, lasts time.Duration, targets ...string) *sim.Fault {
	return Sever(sim.Cut, sim.Split, when, lasts, []string{strings.Join(targets, "|")}, []string{"@rest"})
}

// WithArg sets the argument of an entry.
func WithArg(f *sim.Fault, arg int64) *sim.Fault {
	f.Arg = arg
	return f
}
