package scenarios

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/decide"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(parallelWait)

// parallelWait gives the flush and the replication fixed times and looks at what an
// acknowledgement takes.
var parallelWait = &Drill{
	ID: "B12", Name: "parallel-wait", Fine: true,
	Story: "The disks flush in exactly F, the way to the slaves and back takes exactly D. A durable acknowledgement is back after D + F, because the slave flushes too; a received one after D. The master flushes meanwhile: sends are acknowledged after the longer of the two, never after their sum. A second group with slow disks changes nothing for the first.",
	Pin: func(rnd *prng.Source, s *Setup) {
		*s = StandardSetup()
		s.Groups, s.Replicas, s.Rate, s.Clients = 2, pick(rnd, 2, 3), 20, 4
		s.All, s.Min = true, 2
		s.Flush, s.Class = broker.SyncFlush, pick(rnd, ha.ClassDurable, ha.ClassReceived)
		s.CodecInLoop, s.Silent = false, true // a commit's flush would stand before a send's
		s.HeartbeatTimeout = 10 * time.Second
	},
	World: func(s *Setup, o *sim.Options) {
		fixed := func(d time.Duration) decide.Dist { return decide.Dist{Lo: int64(d), Hi: int64(d)} }
		o.Net.Delay, o.Net.ZoneDelay = fixed(100*time.Microsecond), fixed(100*time.Microsecond)
		o.DiskSync, o.DiskWrite = fixed(waitFlush), fixed(10*time.Microsecond)
		o.Batch, o.DiskNanosPerKiB = fixed(5*time.Microsecond), 0
	},
	Begin: func(r *Run) {
		r.stage("far-slaves", func(f *sim.Fault) {
			for g := range r.Setup.Groups {
				var sides [][]string
				for b := range r.Setup.Replicas {
					sides = append(sides, []string{BrokerNode(g, b)})
				}
				r.inject(&sim.Fault{Kind: sim.Delay, Shape: sim.Split, Sides: sides, For: f.For, Arg: f.Arg})
			}
			r.note("far slaves")
		})
		r.stage("slow-disks", func(f *sim.Fault) {
			var all []string
			for b := range r.Setup.Replicas {
				all = append(all, BrokerNode(1, b))
			}
			r.inject(&sim.Fault{Kind: sim.DiskSlow, Nodes: all, For: f.For, Arg: f.Arg})
			r.note("slow disks")
			r.mark("slow disks")
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{
			Stage("far-slaves", At(time.Second), 56*time.Second, int64(c.Drawn(2*time.Millisecond, 30*time.Millisecond))),
			Stage("slow-disks", At(30*time.Second), 26*time.Second, c.Rnd.Between(8, 12)),
		}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{After: 20, Marks: []string{"slow disks"}},
	Assertions: []Assertion{
		{"about the longer of the two", "within a group the median acknowledgement that met idle disks takes max(F, R) and what the host adds", func(r *Run) string {
			got, floor, sum := r.waits()
			if slack := int64(2*time.Millisecond + r.jitter()); got < floor || got > floor+slack {
				return fmt.Sprintf("median %.2f ms, max(F, R) is %.2f ms, F + R %.2f ms", ms(got), ms(floor), ms(sum))
			}
			return ""
		}},
		{"never the sum", "no acknowledgement that met an idle disk takes F + R", func(r *Run) string {
			_, _, sum := r.waits()
			alone := r.aloneWaits(GroupName(0), r.stamp("far slaves"), r.stamp("slow disks"))
			if len(alone) == 0 {
				return moot
			}
			if r.jitter() > 0 { // the host may hold up any of them
				alone = []int64{r.typical(alone)}
			}
			for _, d := range alone {
				if d >= sum {
					return fmt.Sprintf("a send alone took %.2f ms, F + R is %.2f ms", ms(d), ms(sum))
				}
			}
			return ""
		}},
		{"not before both are done", "no acknowledgement is faster than max(F, R)", func(r *Run) string {
			_, floor, _ := r.waits()
			for _, d := range r.sendWaits(GroupName(0), r.stamp("far slaves"), r.stamp("slow disks")) {
				if d < floor-int64(20*time.Microsecond)-int64(r.jitter()/8) {
					return fmt.Sprintf("a send took %.2f ms, max(F, R) is %.2f ms", ms(d), ms(floor))
				}
			}
			return ""
		}},
		{"across groups", "slow disks in one group leave the median of the other where it was", func(r *Run) string {
			before, _, _ := r.waits()
			after := r.typical(r.aloneWaits(GroupName(0), r.stamp("slow disks"), Ready+int64(55*time.Second)))
			slow := r.typical(r.sendWaits(GroupName(1), r.stamp("slow disks"), Ready+int64(55*time.Second)))
			if after > before+int64(time.Millisecond+r.jitter()) || slow < before+int64(waitFlush) {
				return fmt.Sprintf("group a: %.2f ms before, %.2f ms while group b took %.2f ms", ms(before), ms(after), ms(slow))
			}
			return ""
		}},
	},
}

// jitter is what the computer adds to the typical wait: nothing where time is
// simulated, 3 ms on a busy one.
func (r *Run) jitter() time.Duration { return r.World.Slack() / 32 }

// typical is the median of waits; on a real computer, which only ever adds to a
// wait, what the fastest tenth needs.
func (r *Run) typical(waits []int64) int64 {
	if r.jitter() > 0 {
		return checker.Percentile(waits, 10)
	}
	return checker.Percentile(waits, 50)
}

// waitFlush is what a flush takes in B12.
const waitFlush = 12 * time.Millisecond

func ms(nanos int64) float64 { return float64(nanos/1e3) / 1e3 }

// waits are the median of group a while only its slaves are far, and what it should
// be: the longer of flush and replication, and their sum. The clients' own way,
// 0.1 ms there and back, is taken off.
func (r *Run) waits() (median, floor, sum int64) {
	distance := int64(0)
	for _, f := range r.Plan.Faults {
		if f.Text == stagePrefix+"far-slaves" {
			distance = 2 * (f.Arg + int64(100*time.Microsecond))
		}
	}
	flush, replication := int64(waitFlush), distance
	if r.Setup.Class == ha.ClassDurable {
		replication += flush
	}
	median = r.typical(r.aloneWaits(GroupName(0), r.stamp("far slaves"), r.stamp("slow disks")))
	return median, max(flush, replication), flush + replication
}

// sendWaits are the times that sends to a group took from the broker's view, for
// those that began in [from, to].
func (r *Run) sendWaits(group string, from, to int64) (out []int64) {
	for _, op := range r.sendsTo(group, from, to) {
		out = append(out, op.Return-op.Invoke-int64(200*time.Microsecond))
	}
	return out
}

// aloneWaits are those of sends that met idle disks: the one before was answered a
// flush ago, the next had not begun. A send that comes during a flush waits for its
// end first.
func (r *Run) aloneWaits(group string, from, to int64) (out []int64) {
	ops := r.sendsTo(group, from, to)
	for i, op := range ops {
		if i > 0 && op.Invoke-ops[i-1].Return < int64(waitFlush) || i+1 < len(ops) && ops[i+1].Invoke < op.Return {
			continue
		}
		out = append(out, op.Return-op.Invoke-int64(200*time.Microsecond))
	}
	return out
}

func (r *Run) sendsTo(group string, from, to int64) (out []*checker.Op) {
	for i := range r.Load.Ops {
		op := &r.Load.Ops[i]
		if op.Kind == checker.Send && op.Status == checker.Done && op.UnknownTries == 0 && op.Invoke >= from+int64(time.Second) && op.Return <= to && strings.HasPrefix(op.Queue, group+"/") {
			out = append(out, op)
		}
	}
	return out
}
