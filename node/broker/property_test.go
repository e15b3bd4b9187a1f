package broker

import (
	"fmt"
	"testing"
	"time"

	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/wire"
	"lockstep/storage"
	"pgregory.net/rapid"
)

// chaos draws a run: three brokers under load, with crashes, power cuts, pauses,
// partitions, resets, lost answers of the controllers, needless elections, full
// disks and slow devices. Every acknowledged message and every visible byte must be
// in the log of each later master, at each instant; after healing the group must
// finish its work and agree byte by byte.
type chaos struct {
	*world
	cuts map[[2]string]bool
	load []func()
	keys int
	// victim is the only broker whose power may fail, where acknowledgements promise
	// less than durable bytes; 0: any.
	victim int
}

func (c *chaos) broker(t *rapid.T) *machine {
	return c.nodes[rapid.IntRange(0, len(c.nodes)-1).Draw(t, "broker")]
}

func (c *chaos) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"time": func(t *rapid.T) {
			c.run(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
		},
		"moment": func(t *rapid.T) {
			c.run(time.Duration(rapid.IntRange(1, 2000).Draw(t, "us")) * time.Microsecond)
		},
		"produce": func(t *rapid.T) {
			if m := c.master(); m != nil {
				c.keys++
				p := c.client(m)
				for i := range rapid.IntRange(1, 6).Draw(t, "n") {
					p.send(fmt.Sprintf("k%d-%d", c.keys, i))
				}
			}
		},
		"load": func(t *rapid.T) {
			if m := c.master(); m != nil && len(c.load) < 3 {
				c.keys++
				stop, _ := c.world.load(m, fmt.Sprintf("l%d", c.keys), rapid.IntRange(1, 4).Draw(t, "n"))
				c.load = append(c.load, stop)
			}
		},
		"crash": func(t *rapid.T) {
			m := c.broker(t)
			m.crash(rapid.Bool().Draw(t, "power") && (c.victim == 0 || m.n == c.victim))
		},
		"start": func(t *rapid.T) {
			if m := c.broker(t); m.b == nil {
				m.start()
			}
		},
		"pause": func(t *rapid.T) {
			if m := c.broker(t); m.b != nil {
				m.paused = true
			}
		},
		"resume": func(t *rapid.T) {
			if m := c.broker(t); m.paused {
				m.resume()
			}
		},
		"partition": func(t *rapid.T) {
			hosts := []string{"b1", "b2", "b3", "c1"}
			a, b := rapid.SampledFrom(hosts).Draw(t, "from"), rapid.SampledFrom(hosts).Draw(t, "to")
			c.cuts[[2]string{a, b}] = true
		},
		"heal": func(t *rapid.T) { clear(c.cuts) },
		"reset": func(t *rapid.T) {
			if n := len(c.streams); n > 0 {
				c.streams[rapid.IntRange(0, n-1).Draw(t, "stream")].down("reset")
				c.sweep()
			}
		},
		"suspicion": func(t *rapid.T) { // the controllers take a live master for dead
			c.ctl.elect(ha.NoBroker)
		},
		"answers": func(t *rapid.T) {
			code := rapid.SampledFrom([]int32{wire.ReqAlterSyncStateSet, wire.ReqElectMaster, wire.ReqGetReplicaInfo, wire.ReqRegisterToController}).Draw(t, "code")
			c.ctl.noAnswer[code] = !c.ctl.noAnswer[code]
		},
		"drops": func(t *rapid.T) { c.ctl.ignore[wire.ReqAlterSyncStateSet] = !c.ctl.ignore[wire.ReqAlterSyncStateSet] },
		"full":  func(t *rapid.T) { m := c.broker(t); m.store.full = !m.store.full },
		"": func(t *rapid.T) {
			for _, m := range c.nodes {
				if m.b != nil && !m.paused {
					m.b.CheckInvariants()
				}
			}
		},
	}
}

// heal ends all faults and lets the group finish.
func (c *chaos) heal() {
	for _, stop := range c.load {
		stop()
	}
	clear(c.cuts)
	clear(c.ctl.noAnswer)
	clear(c.ctl.ignore)
	for _, m := range c.nodes {
		m.store.full = false
		if m.paused {
			m.resume()
		}
		if m.b == nil && (m.exit == nil || m.store.suspect == "") {
			m.start()
		}
	}
	c.until("a writable master", 90*time.Second, func() bool { return c.writable() != nil })
	c.until("a full set, converged", 120*time.Second, func() bool {
		return len(c.ctl.set) == len(c.nodes) && c.writable() != nil && c.converged()
	})
	// What was under way when the faults ended may still time out; then it works.
	for try, before := 0, len(c.promised); len(c.promised) == before; try++ {
		if try == 10 {
			c.fail("no message was acknowledged after healing")
		}
		m := c.writable()
		p := c.client(m)
		p.send(fmt.Sprintf("the last one, try %d", try))
		c.run(4 * time.Second)
		c.until("a writable master", 30*time.Second, func() bool { return c.writable() != nil })
	}
	m := c.master()
	c.until("convergence", 60*time.Second, func() bool { return len(c.ctl.set) == len(c.nodes) && c.converged() })
	c.checkEqual()
	c.checkVisible(m)
	for _, p := range c.promised {
		for _, x := range c.nodes {
			if !x.holds(p, false) {
				c.fail("b%d lacks acknowledged %q at the end", x.n, p.body)
			}
		}
	}
}

func newChaos(t *rapid.T, tune func(n int, o *Options)) *chaos {
	w := newWorld(t, 3, func(n int, o *Options) {
		o.MappedFileSizeCommitLog = 16 << 10
		o.HATransferBatchSize = 512
		o.HATransferWindow = 8 << 10
		o.HAJoinLag = 2 << 10
		o.MetaCheckpointBytes = 8 << 10
		o.MaxTailBytes = 64 << 10
		o.TailIdle = 2 * time.Second
		tune(n, o)
	})
	c := &chaos{world: w, cuts: map[[2]string]bool{}}
	w.cut = func(a, b string) bool { return c.cuts[[2]string{a, b}] }
	rng := prng.New(rapid.Uint64().Draw(t, "noise"))
	w.netDelay = func() time.Duration {
		if rng.Chance(1, 50) {
			return time.Duration(rng.Between(1, 200)) * time.Millisecond
		}
		return time.Duration(rng.Between(50, 1500)) * time.Microsecond
	}
	w.diskTime = func(op storage.Op) time.Duration {
		if rng.Chance(1, 100) {
			return time.Duration(rng.Between(1, 300)) * time.Millisecond
		}
		return time.Duration(rng.Between(10, 3000)) * time.Microsecond
	}
	for _, m := range w.nodes {
		m.start()
	}
	w.until("a full set", 60*time.Second, func() bool { return w.writable() != nil && len(w.writable().b.set.committed) == 3 })
	return c
}

// TestChaos holds the promises under the default policy, with and without leases:
// durability depends on no clock.
func TestChaos(t *testing.T) {
	for _, lease := range []WriteLease{LeaseRequired, LeaseOff} {
		t.Run("lease "+lease.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := newChaos(t, func(n int, o *Options) { o.WriteLease = lease })
				t.Repeat(c.actions())
				c.heal()
			})
		})
	}
}

// TestChaosReceived holds them where acknowledgements mean "received", as long as
// power fails at one broker only (P1, P16).
func TestChaosReceived(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t, func(n int, o *Options) { o.AckClass, o.FlushDiskType = ha.ClassReceived, AsyncFlush })
		c.victim = rapid.IntRange(1, 3).Draw(t, "victim")
		t.Repeat(c.actions())
		c.heal()
	})
}
