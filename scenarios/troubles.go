package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/sim"
)

// troubles draws faults.
type troubles struct {
	*Cast
	out []*sim.Fault
	// storm puts everything into a few seconds from begin on, instead of all over the
	// run: troubles that meet each other.
	storm bool
	begin time.Duration
}

// certain reports whether a trouble is sure to happen: one that waits for a step of
// the protocol is not, and a run in which nothing happens shows nothing.
func certain(f *sim.Fault) bool { return !strings.HasPrefix(f.Text, stagePrefix) }

// draw adds one trouble.
func (d *troubles) draw() {
	switch d.Rnd.Intn(12) {
	case 0, 1, 2:
		d.process()
	case 3, 4:
		d.network()
	case 5:
		d.disk()
	case 6:
		d.damage()
	case 7:
		d.clock()
	case 8:
		d.onEvent()
	case 9:
		d.swizzle()
	case 10:
		d.outlast()
	case 11:
		d.isolate()
	}
}

// when draws a time that leaves room for the end.
func (d *troubles) when() sim.Trigger {
	if d.storm {
		return d.Between(d.begin, d.begin+6*time.Second)
	}
	return d.Between(time.Second, 40*time.Second)
}

// lasts draws a duration, short ones as often as long ones.
func (d *troubles) lasts() time.Duration {
	if d.Rnd.Chance(1, 2) {
		return d.Drawn(50*time.Millisecond, 2*time.Second)
	}
	return d.Drawn(2*time.Second, 16*time.Second)
}

// away draws how long a process is stopped: where messages expire, often until they
// have.
func (d *troubles) away() time.Duration {
	if d.Setup.Reserved > 0 && d.Rnd.Chance(1, 2) {
		return d.Setup.Reserved + d.Drawn(10*time.Second, 20*time.Second)
	}
	return d.lasts()
}

// group draws a group's letter.
func (d *troubles) group() string { return string(rune('a' + d.Rnd.Intn(d.Setup.Groups))) }

// broker draws a broker by role or by name.
func (d *troubles) broker() string {
	g := d.group()
	if d.Rnd.Chance(1, 2) {
		return "@master/" + g
	}
	return "@slave/" + g + "/" + strconv.Itoa(d.Rnd.Intn(d.Setup.Replicas-1))
}

// server draws any server.
func (d *troubles) server() string {
	switch d.Rnd.Intn(6) {
	case 0:
		return "@leader"
	case 1:
		return ControllerNode(d.Rnd.Intn(d.Setup.Controllers))
	case 2:
		return NamesrvNode(d.Rnd.Intn(d.Setup.Namesrvs))
	}
	return d.broker()
}

// lossy reports whether a power loss can cost what was acknowledged: then only
// victims may suffer it.
func (d *troubles) lossy() bool { return d.Setup.Class == ha.ClassReceived }

// process adds the loss, stop or slowness of one process, or of several at once.
func (d *troubles) process() {
	kind := pick(d.Rnd, sim.CrashExit, sim.CrashExit, sim.CrashSilent, sim.PowerLoss, sim.Stop, sim.Pause, sim.Suspend, sim.SlowCPU)
	targets := []string{d.server()}
	if d.Rnd.Chance(1, 4) {
		targets = append(targets, d.server())
	}
	if d.Rnd.Chance(1, 12) {
		targets = []string{pick(d.Rnd, "@controllers", "@namesrvs", "@brokers/"+d.group(), ProducerNode(0), WatcherNode(0))}
	}
	if kind == sim.PowerLoss && d.lossy() {
		if targets = d.Setup.victims(); len(targets) == 0 {
			kind, targets = sim.CrashSilent, []string{d.broker()}
		}
	}
	f := Strike(kind, d.when(), d.away(), targets...)
	if kind == sim.SlowCPU {
		f.Arg = d.Rnd.Between(10, 3000)
	}
	d.out = append(d.out, f)
}

// outlast takes a slave away until the set has shrunk, and the master before the slave
// is back in it.
func (d *troubles) outlast() {
	s, g, begin := d.Setup, d.group(), min(time.Duration(d.when().At-Ready), 15*time.Second)
	away := s.NotCatchup + s.CheckSet + d.Drawn(0, 6*time.Second)
	kind := pick(d.Rnd, sim.CrashExit, sim.CrashSilent, sim.Stop, sim.Pause)
	d.out = append(d.out, Strike(kind, At(begin), away, "@slave/"+g+"/"+strconv.Itoa(d.Rnd.Intn(s.Replicas-1))),
		Strike(kind, At(begin+away-d.Drawn(0, 3*time.Second)), s.HeartbeatTimeout+s.ScanInterval+d.Drawn(2*time.Second, 12*time.Second), "@master/"+g))
}

// isolate leaves a master alone with a producer for long enough that another is
// elected: what it appended meanwhile is cut when it is back.
func (d *troubles) isolate() {
	s := d.Setup
	side := []string{"@master/" + d.group(), ProducerNode(d.Rnd.Intn(s.Clients))}
	d.out = append(d.out, Sever(pick(d.Rnd, sim.Cut, sim.Stall), sim.Split, d.when(), s.HeartbeatTimeout+s.ScanInterval+d.Drawn(time.Second, 12*time.Second), side, []string{"@rest"}))
}

// everybody is every node of the world.
func (d *troubles) everybody() []string {
	s := d.Setup
	out := append(names(s.Controllers, ControllerNode), names(s.Namesrvs, NamesrvNode)...)
	for g := range s.Groups {
		for b := range s.Replicas {
			out = append(out, BrokerNode(g, b))
		}
	}
	return append(append(out, names(s.Clients, ProducerNode)...), names(watchers, WatcherNode)...)
}

// network adds a trouble of the network in a drawn shape.
func (d *troubles) network() {
	f := &sim.Fault{Kind: pick(d.Rnd, sim.Cut, sim.Cut, sim.Cut, sim.Stall, sim.Delay, sim.Loss, sim.Corrupt, sim.Bandwidth, sim.Refuse, sim.Reset, sim.HalfOpen),
		When: d.when(), For: int64(d.lasts())}
	switch f.Kind {
	case sim.Delay:
		f.Arg = d.Rnd.Between(int64(time.Millisecond), int64(800*time.Millisecond))
	case sim.Loss:
		f.Arg = d.Rnd.Between(5, 300)
	case sim.Corrupt:
		f.Arg = d.Rnd.Between(1, 30)
	case sim.Bandwidth:
		f.Arg = d.Rnd.Between(20_000, 2_000_000)
	case sim.Reset, sim.HalfOpen:
		f.For = 0
	}
	d.shape(f)
	d.out = append(d.out, f)
}

// shape draws who is on which side: a random split with bridges left out, one node
// against the rest, one way only, a pair, or a ring.
func (d *troubles) shape(f *sim.Fault) {
	all := d.everybody()
	d.shuffle(all)
	f.Shape = pick(d.Rnd, sim.Split, sim.Split, sim.Away)
	switch d.Rnd.Intn(5) {
	case 0: // one against all
		f.Sides = [][]string{all[:1], all[1:]}
	case 1: // a pair
		f.Sides = [][]string{all[:1], all[1:2]}
	case 2: // a ring of four or more
		n := int(d.Rnd.Between(4, int64(len(all))))
		f.Shape, f.Sides = sim.Ring, [][]string{all[:n]}
	case 3: // a bridge: some belong to no side
		n := int(d.Rnd.Between(1, int64(len(all)-2)))
		bridge := int(d.Rnd.Between(1, int64(len(all)-n-1)))
		f.Sides = [][]string{all[:n], all[n+bridge:]}
	default:
		n := int(d.Rnd.Between(1, int64(len(all)-1)))
		f.Sides = [][]string{all[:n], all[n:]}
	}
}

func (d *troubles) shuffle(list []string) {
	for i := len(list) - 1; i > 0; i-- {
		k := d.Rnd.Intn(i + 1)
		list[i], list[k] = list[k], list[i]
	}
}

// disk adds a trouble that destroys nothing.
func (d *troubles) disk() {
	f := Strike(pick(d.Rnd, sim.DiskSlow, sim.DiskStall, sim.DiskFull), d.when(), d.lasts(), d.server())
	switch {
	case strings.Contains(f.Text, string(sim.DiskSlow)):
		f.Arg = d.Rnd.Between(2, 200)
	case strings.Contains(f.Text, string(sim.DiskFull)):
		f.Text = actPrefix + string(sim.DiskFull) + " " + d.broker() // a controller ends with its store
		f.Arg = d.Rnd.Between(0, 1<<20)
	}
	d.out = append(d.out, f)
}

// damage adds a trouble that ends a store's claim; only victims suffer it.
func (d *troubles) damage() {
	v := d.Setup.victims()
	if len(v) == 0 {
		d.process()
		return
	}
	f := &sim.Fault{Kind: pick(d.Rnd, sim.WipeDisk, sim.DiskRot, sim.DiskLies, sim.DiskSyncDrop, sim.DiskEIO, sim.DiskReadOnly), Nodes: []string{v[d.Rnd.Intn(len(v))]},
		When: d.when(), For: int64(d.lasts())}
	switch f.Kind {
	case sim.DiskRot:
		f.For, f.Text = 0, pick(d.Rnd, "commitlog", "commitlog", "consumequeue", "")
		f.Arg = d.Rnd.Between(1, 3)
	case sim.DiskEIO:
		f.Text, f.Arg = pick(d.Rnd, "write:commitlog", "sync:", "read:commitlog", ""), d.Rnd.Between(0, 2)
	case sim.DiskSyncDrop:
		f.Arg = 1
	}
	d.out = append(d.out, f)
}

// clock adds a step of a wall clock, or drift within the margin of leases.
func (d *troubles) clock() {
	kind := pick(d.Rnd, sim.WallStep, sim.ClockDrift)
	if d.Setup.Reserved > 0 { // a step of hours is not about what grows old in seconds
		kind = sim.ClockDrift
	}
	f := Strike(kind, d.when(), d.lasts(), d.server())
	if strings.Contains(f.Text, string(sim.WallStep)) {
		f.For, f.Arg = 0, d.Rnd.Between(-7_200_000, 7_200_000)
	} else {
		f.Arg = d.Rnd.Between(-20_000, 20_000)
	}
	d.out = append(d.out, f)
}

// moments are the protocol steps at which faults like to strike.
var moments = []event.Kind{event.AlterProposed, event.SetAdopted, event.PromotionBegun, event.BarrierAppended, event.Serving, event.Truncated,
	event.Following, event.SlaveJoined, event.EpochRecorded, event.RoleApplied, event.Demoted, event.Rolled, event.Started, event.LeaseExpired}

// onEvent arms a crash for the next occurrences of a protocol step, at whom it
// happens to or at the leading controller, some of them inside a disk operation;
// usually something else makes the step happen.
func (d *troubles) onEvent() {
	kind := pick(d.Rnd, sim.CrashExit, sim.CrashSilent, sim.PowerLoss, sim.Pause)
	if d.lossy() && kind == sim.PowerLoss {
		kind = sim.CrashSilent
	}
	target, step := "@event", 0
	if kind != sim.Pause && d.Rnd.Chance(1, 2) {
		step = int(d.Rnd.Between(1, 12))
	} else if d.Rnd.Chance(1, 3) {
		target = "@leader"
	}
	when := time.Duration(d.when().At - Ready)
	delay := time.Duration(0)
	if d.Rnd.Chance(1, 2) {
		delay = d.Drawn(0, 20*time.Millisecond)
	}
	text := fmt.Sprintf("on %s %d %d %s %s", pick(d.Rnd, moments...), delay, step, kind, target)
	d.out = append(d.out, Stage(text, At(when), d.lasts(), d.Rnd.Between(1, 3)))
	if d.Rnd.Chance(3, 4) {
		d.out = append(d.out, Strike(pick(d.Rnd, sim.CrashExit, sim.CrashSilent, sim.Pause), At(when+d.Drawn(0, 5*time.Second)), d.lasts(), d.broker()))
	}
}

// swizzle stops a drawn subset one by one and starts it in another order.
func (d *troubles) swizzle() {
	s := d.Setup
	all := append(names(s.Controllers, ControllerNode), names(s.Namesrvs, NamesrvNode)...)
	for g := range s.Groups {
		for b := range s.Replicas {
			all = append(all, BrokerNode(g, b))
		}
	}
	d.shuffle(all)
	some := all[:d.Rnd.Between(2, int64(len(all)))]
	kind := pick(d.Rnd, sim.CrashExit, sim.CrashSilent, sim.Stop, sim.Pause)
	begin, gap := min(time.Duration(d.when().At-Ready), 25*time.Second), d.Drawn(50*time.Millisecond, 1500*time.Millisecond)
	stopped := begin + time.Duration(len(some))*gap
	back := slices.Clone(some)
	d.shuffle(back)
	for i, n := range some {
		at := begin + time.Duration(i)*gap
		up := stopped + time.Duration(slices.Index(back, n)+1)*gap
		d.out = append(d.out, &sim.Fault{Kind: kind, Nodes: []string{n}, When: At(at), For: int64(up - at)})
	}
}
