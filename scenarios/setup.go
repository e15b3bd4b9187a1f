package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
)

// Setup is what a run draws from its seed: the shape of the cluster, the
// configuration of its nodes and the load. It is printed first, kept in plans and
// counted by sweeps.
type Setup struct {
	Groups      int // broker groups, 1–2
	Replicas    int // per group, 1, 2, 3 or 5
	Controllers int // 1, 3 or 5
	Namesrvs    int // 1–3

	All     bool // allAckInSyncStateSet
	Count   int  // inSyncReplicas when All is off
	Min     int  // minInSyncReplicas
	Flush   broker.FlushDiskType
	Class   ha.AckClass
	Lease   broker.WriteLease
	Unclean bool // enableElectUncleanMaster

	HeartbeatTimeout time.Duration // controllerHeartBeatTimeoutMills
	ScanInterval     time.Duration // scanNotActiveBrokerInterval
	NotCatchup       time.Duration // haMaxTimeSlaveNotCatchup
	CheckSet         time.Duration // checkSyncStateSetPeriod
	LeaseDuration    time.Duration
	SlaveTimeout     time.Duration
	SegmentBytes     int64
	BatchBytes       int           // haTransferBatchSize
	Throttle         int64         // maxHaTransferByteInSecond, 0 = none
	Reserved         time.Duration // fileReservedTime of a drill about retention, 0: the default of days

	Queues    int // of the drill's topic
	Clients   int // producers; two consumers watch
	Rate      int // sends per second over all producers and groups
	BodyBytes int // largest body

	CodecInLoop bool // every frame is encoded and decoded
	Linger      bool // idle machines wait a drawn moment before they settle
	CheckAll    bool // invariants of a machine after each of its batches, not every 16th
	WatchAll    bool // each watcher reads every queue, not its share of them
	Silent      bool // consumers never commit offsets
	Skew        bool // clocks differ and drift
	Wild        bool // the drill lets clocks leave the drift bound
	Pebble      bool // controllers keep their raft log in Pebble
}

// StandardSetup is the standard world (ARCHITECTURE.md, determinism and replay). It
// has 100 operations a second: 50 sends, and the reads of the 50 messages by the
// consumer that has their queue.
func StandardSetup() Setup {
	return Setup{
		Groups: 2, Replicas: 3, Controllers: 3, Namesrvs: 2,
		All: true, Count: 1, Min: 2, Flush: broker.SyncFlush, Class: ha.ClassDurable, Lease: broker.LeaseRequired,
		HeartbeatTimeout: 10 * time.Second, ScanInterval: 5 * time.Second, NotCatchup: 15 * time.Second, CheckSet: 5 * time.Second,
		LeaseDuration: 10 * time.Second, SlaveTimeout: 3 * time.Second, SegmentBytes: 1 << 20, BatchBytes: 32 << 10,
		Queues: 4, Clients: 4, Rate: 50, BodyBytes: 256,
	}
}

// Draw makes a setup from a seed, every field within its range. Drills pin what
// they are about afterwards.
func Draw(rnd *prng.Source) Setup {
	s := StandardSetup()
	s.Groups = pick(rnd, 1, 1, 2)
	s.Replicas = pick(rnd, 2, 3, 3, 3, 5)
	s.Controllers = pick(rnd, 1, 3, 3, 3, 5)
	s.Namesrvs = pick(rnd, 1, 2, 2, 3)
	s.drawPolicy(rnd)
	s.HeartbeatTimeout = pick(rnd, 3*time.Second, 5*time.Second, 10*time.Second)
	s.ScanInterval = pick(rnd, time.Second, 2*time.Second, 5*time.Second)
	s.NotCatchup = pick(rnd, 3*time.Second, 8*time.Second, 15*time.Second)
	s.CheckSet = pick(rnd, time.Second, 5*time.Second)
	s.LeaseDuration = pick(rnd, 7*time.Second, 10*time.Second)
	s.SlaveTimeout = pick(rnd, time.Second, 3*time.Second)
	s.SegmentBytes = pick(rnd, int64(64<<10), int64(256<<10), int64(1<<20))
	s.BatchBytes = pick(rnd, 4<<10, 32<<10, 256<<10)
	s.Throttle = pick(rnd, int64(0), int64(0), int64(256<<10))
	s.Queues = pick(rnd, 1, 4, 8)
	s.Clients = pick(rnd, 4, 4, 6)
	s.Rate = pick(rnd, 20, 50, 100)
	s.BodyBytes = pick(rnd, 64, 256, 2048)
	s.CodecInLoop = rnd.Chance(1, 4)
	s.Skew = rnd.Chance(1, 2)
	return s
}

// drawHost draws how closely a run looks and how its machines are driven. It draws
// by itself, so that what else a seed means does not depend on it.
func (s *Setup) drawHost(rnd *prng.Source) {
	s.Linger = rnd.Chance(1, 4)
	s.CheckAll = rnd.Chance(1, 4)
	s.WatchAll = rnd.Chance(1, 4)
}

func (s *Setup) drawPolicy(rnd *prng.Source) {
	s.All = rnd.Chance(3, 4)
	s.Count = pick(rnd, 1, 2)
	s.Min = pick(rnd, 1, 2, 2)
	s.Flush = pick(rnd, broker.SyncFlush, broker.SyncFlush, broker.AsyncFlush)
	s.Class = ha.ClassDurable
	if s.Flush == broker.AsyncFlush {
		s.Class = ha.ClassReceived
	}
	s.Lease = pick(rnd, broker.LeaseRequired, broker.LeaseOff)
	s.clamp()
}

// surelyKept is the age, nanoseconds, below which no clock of the run can make a
// message old enough for retention; 0 when nothing grows old in it.
func (s *Setup) surelyKept() int64 {
	switch {
	case s.Reserved == 0:
		return 0
	case s.Skew: // wall clocks of two masters are minutes apart
		return 1
	}
	return int64(s.Reserved - time.Second)
}

func pick[T any](rnd *prng.Source, options ...T) T { return options[rnd.Intn(len(options))] }

// Options lists the setup's fields by name, in a fixed order.
func (s *Setup) Options() []Option {
	var out []Option
	for _, f := range s.fields() {
		out = append(out, Option{f.name, f.get()})
	}
	return out
}

// Apply sets a field by name; an unknown name or a value that cannot be read is an
// error that says what there is. Whether the value makes sense is for Validate.
func (s *Setup) Apply(name, value string) error {
	var names []string
	for _, f := range s.fields() {
		names = append(names, f.name)
		if f.name != name {
			continue
		}
		if err := f.set(value); err != nil {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
		return nil
	}
	return fmt.Errorf("no option is called %q; there are %s", name, strings.Join(names, ", "))
}

type field struct {
	name string
	get  func() string
	set  func(string) error
}

func intField[T ~int | ~int64](name string, p *T) field {
	return field{name, func() string { return strconv.FormatInt(int64(*p), 10) }, func(v string) error {
		n, err := strconv.ParseInt(v, 10, strconv.IntSize)
		if err != nil {
			return fmt.Errorf("write a whole number")
		}
		*p = T(n)
		return nil
	}}
}

func boolField(name string, p *bool) field {
	return field{name, func() string { return strconv.FormatBool(*p) }, func(v string) (err error) {
		if *p, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("write true or false")
		}
		return nil
	}}
}

func timeField(name string, p *time.Duration) field {
	return field{name, func() string { return p.String() }, func(v string) (err error) {
		if *p, err = time.ParseDuration(v); err != nil {
			return fmt.Errorf("write a time with its unit, as in 500ms or 5s")
		}
		return nil
	}}
}

// wordField is a small enumeration spelled as configuration spells it.
func wordField[T interface {
	~uint8
	String() string
}](name string, p *T, values ...T) field {
	return field{name, func() string { return (*p).String() }, func(v string) error {
		for _, x := range values {
			if x.String() == v {
				*p = x
				return nil
			}
		}
		return fmt.Errorf("write one of %v", values)
	}}
}

func (s *Setup) fields() []field {
	return []field{
		intField("groups", &s.Groups), intField("replicas", &s.Replicas), intField("controllers", &s.Controllers),
		intField("namesrvs", &s.Namesrvs), boolField("allAckInSyncStateSet", &s.All), intField("inSyncReplicas", &s.Count),
		intField("minInSyncReplicas", &s.Min), wordField("flushDiskType", &s.Flush, broker.SyncFlush, broker.AsyncFlush),
		wordField("ackClass", &s.Class, ha.ClassReceived, ha.ClassDurable),
		wordField("writeLease", &s.Lease, broker.LeaseRequired, broker.LeaseOff, broker.LeaseOffered),
		boolField("enableElectUncleanMaster", &s.Unclean), timeField("controllerHeartBeatTimeout", &s.HeartbeatTimeout),
		timeField("scanNotActiveBrokerInterval", &s.ScanInterval), timeField("haMaxTimeSlaveNotCatchup", &s.NotCatchup),
		timeField("checkSyncStateSetPeriod", &s.CheckSet), timeField("writeLeaseDuration", &s.LeaseDuration),
		timeField("slaveTimeout", &s.SlaveTimeout), intField("mappedFileSizeCommitLog", &s.SegmentBytes),
		intField("haTransferBatchSize", &s.BatchBytes), intField("maxHaTransferByteInSecond", &s.Throttle), timeField("fileReservedTime", &s.Reserved),
		intField("queues", &s.Queues), intField("clients", &s.Clients), intField("rate", &s.Rate), intField("bodyBytes", &s.BodyBytes),
		boolField("codecInLoop", &s.CodecInLoop), boolField("linger", &s.Linger), boolField("checkAll", &s.CheckAll),
		boolField("watchAll", &s.WatchAll), boolField("skew", &s.Skew), boolField("wildClocks", &s.Wild), boolField("pebble", &s.Pebble),
	}
}
