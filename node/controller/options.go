package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/node"
)

// LeaseMode says whether the masters of a group write under a lease (rule P12).
type LeaseMode uint8

// The lease modes; the text is what configuration spells.
const (
	LeaseRequired LeaseMode = iota // grants are given, elections wait for the old lease to end
	LeaseOffered                   // the same from this side; brokers start without
	LeaseOff                       // no grants, no waiting
)

// String is the text in configuration.
func (m LeaseMode) String() string { return [...]string{"required", "offered", "off"}[m%3] }

// Peer is one configured controller. The list gives addresses only; who may vote is
// in the committed membership.
type Peer struct {
	Node string // "n0", "n1", … as in controllerDLegerPeers
	Raft string // host:port for the other controllers
	Addr string // host:port for brokers and tools
}

// GroupLease overrides the lease mode of one broker group.
type GroupLease struct {
	Group string
	Mode  LeaseMode
}

// Options configure one controller. Tags name RocketMQ's property, or Lockstep's own
// where RocketMQ has none.
type Options struct {
	// ControllerGroup names this set of controllers; peers of another are refused.
	ControllerGroup string `key:"controllerDLegerGroup"`
	// SelfID is this controller's id among Peers, "n" and a number.
	SelfID string `key:"controllerDLegerSelfId"`
	// Peers are all configured controllers, this one included. 1..64; an even count
	// survives no more failures than the odd one below it and is refused unless
	// AllowEvenPeers.
	Peers []Peer `key:"controllerDLegerPeers"`
	// AllowEvenPeers accepts an even number of controllers.
	AllowEvenPeers bool `key:"allowEvenControllers"`
	// Initialise lets a new cluster of several controllers begin. Only the lowest id
	// acts on it, only when every configured controller is there and empty; committed
	// state is never initialised again.
	Initialise bool `key:"initialiseControllers"`
	// Rejoin confirms that this controller lost its store and shall be taken in as a new
	// member: it catches up without a vote and gets one then. It does nothing while the
	// store is there.
	Rejoin bool `key:"rejoinControllers"`

	// ScanNotActiveBrokerInterval is the time between looks for silent masters.
	ScanNotActiveBrokerInterval time.Duration `key:"scanNotActiveBrokerInterval"`
	// HeartbeatTimeout is how long a broker may be silent that does not say itself.
	HeartbeatTimeout time.Duration `key:"controllerHeartBeatTimeoutMills"`
	// SessionCloseGrace is how long a broker may be silent once the session its
	// heartbeats came on has closed: a broken connection alone is no failure.
	SessionCloseGrace time.Duration `key:"sessionCloseGraceMillis"`
	// EnableElectUncleanMaster allows an election outside the electable members, which
	// loses acknowledged messages.
	EnableElectUncleanMaster bool `key:"enableElectUncleanMaster"`
	// ElectUnknownReadiness lets brokers that say neither whether their store may be
	// promoted nor whether it holds what it acknowledged (Java) be elected.
	ElectUnknownReadiness bool `key:"electUnknownReadiness"`
	// NotifyBrokerRoleChanged pushes elections to the brokers (code 1008).
	NotifyBrokerRoleChanged bool `key:"notifyBrokerRoleChanged"`
	// NotifyInterval is the first pause before a notice is repeated; it doubles up to
	// maxNotifyPause.
	NotifyInterval time.Duration `key:"notifyRetryMillis"`
	// FirstElectionWait is how long the first election of a group waits for the rest
	// of its replicas to register.
	FirstElectionWait time.Duration `key:"firstElectionWaitMillis"`

	// WriteLease is the lease mode of every group not named in GroupLeases.
	WriteLease LeaseMode `key:"writeLease"`
	// GroupLeases are the exceptions.
	GroupLeases []GroupLease `key:"writeLeaseGroups"`
	// LeaseDuration is the length of a grant.
	LeaseDuration time.Duration `key:"writeLeaseMillis"`
	// LeaseMargin is the part of a grant the broker may not use: twice the clock drift
	// over a grant, and the longest batch of its loop.
	LeaseMargin time.Duration `key:"writeLeaseMarginMillis"`
	// BrokerHeartbeatInterval is what brokers are configured to; known here to check
	// the lease and to judge how old a report can be.
	BrokerHeartbeatInterval time.Duration `key:"brokerHeartbeatInterval"`
	// CommitTimeout is how long a commit among the controllers may take in normal
	// service; known here only to check the lease.
	CommitTimeout time.Duration `key:"controllerCommitMillis"`

	// Tick is the unit of raft time.
	Tick time.Duration `key:"controllerTickMillis"`
	// ElectionTicks is the silence after which a controller stands for election; the
	// real time-out is drawn between one and two times that.
	ElectionTicks int `key:"controllerElectionTicks"`
	// HeartbeatTicks is the time between heartbeats of the leading controller.
	HeartbeatTicks int `key:"controllerHeartbeatTicks"`
	// RequestTimeout is the age at which a request without result is answered
	// "outcome unknown".
	RequestTimeout time.Duration `key:"controllerRequestTimeoutMillis"`
	// RedialPause is the time between two attempts to reach a peer or broker.
	RedialPause time.Duration `key:"redialPauseMillis"`
	// SnapshotEvery is how many applied entries lie between two snapshots.
	SnapshotEvery int `key:"controllerSnapshotEntries"`
	// KeepEntries is how many entries below a snapshot stay for slow peers.
	KeepEntries int `key:"controllerKeepEntries"`
}

// Limits of a controller's queues.
const (
	// maxPending bounds proposals without a result; beyond it requests are answered
	// busy.
	maxPending = 1024
	// maxReads bounds requests waiting for a read barrier.
	maxReads = 4096
	// maxNotifyPause bounds the pause between two copies of a notice.
	maxNotifyPause = 10 * time.Second
	// maxLease bounds a grant: no election may have to wait longer.
	maxLease = time.Hour
)

// DefaultOptions returns the defaults of the design for the given peers.
func DefaultOptions() Options {
	return Options{
		ControllerGroup:             "lockstep-controllers",
		ScanNotActiveBrokerInterval: 5 * time.Second,
		HeartbeatTimeout:            10 * time.Second,
		SessionCloseGrace:           10 * time.Second,
		NotifyBrokerRoleChanged:     true,
		NotifyInterval:              time.Second,
		FirstElectionWait:           3 * time.Second,
		WriteLease:                  LeaseRequired,
		LeaseDuration:               10 * time.Second,
		LeaseMargin:                 2 * time.Second,
		BrokerHeartbeatInterval:     time.Second,
		CommitTimeout:               500 * time.Millisecond,
		Tick:                        100 * time.Millisecond,
		ElectionTicks:               10,
		HeartbeatTicks:              3,
		RequestTimeout:              5 * time.Second,
		RedialPause:                 500 * time.Millisecond,
		SnapshotEvery:               5000,
		KeepEntries:                 1000,
	}
}

// ParsePeers reads RocketMQ's spelling of the peers, "n0-host:port;n1-host:port"
// (raft addresses), and the broker-facing addresses in the same order,
// "host:port;host:port".
func ParsePeers(raft, addrs string) ([]Peer, error) {
	var out []Peer
	for part := range strings.SplitSeq(strings.TrimSpace(raft), ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		node, at, ok := strings.Cut(part, "-")
		if !ok {
			return nil, fmt.Errorf("controllerDLegerPeers: %q is not id-host:port", part)
		}
		out = append(out, Peer{Node: node, Raft: at})
	}
	i := 0
	for part := range strings.SplitSeq(strings.TrimSpace(addrs), ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if i < len(out) {
			out[i].Addr = part
		}
		i++
	}
	if i != len(out) {
		return nil, fmt.Errorf("controllerDLegerPeers lists %d controllers and controllerRPCAddrs %d addresses: list one broker-facing address for each, in the same order", len(out), i)
	}
	return out, nil
}

// raftID is the member number of a configured id: "n0" is 1, "n1" is 2.
func raftID(node string) (uint64, bool) {
	digits, ok := strings.CutPrefix(node, "n")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, false
	}
	return n + 1, true
}

// self is this controller's peer entry.
func (o *Options) self() Peer {
	i := slices.IndexFunc(o.Peers, func(p Peer) bool { return p.Node == o.SelfID })
	if i < 0 {
		return Peer{}
	}
	return o.Peers[i]
}

// lowest is the configured id that may initialise.
func (o *Options) lowest() string {
	best, node := uint64(1<<63), ""
	for _, p := range o.Peers {
		if id, ok := raftID(p.Node); ok && id < best {
			best, node = id, p.Node
		}
	}
	return node
}

// leaseOf is the lease mode of a group.
func (o *Options) leaseOf(group string) LeaseMode {
	for _, g := range o.GroupLeases {
		if g.Group == group {
			return g.Mode
		}
	}
	return o.WriteLease
}

// electionTimeout is the longest time controllers need to find a new leader after
// the old one fell silent: the largest drawn time-out and one vote.
func (o *Options) electionTimeout() time.Duration {
	return 2*time.Duration(o.ElectionTicks)*o.Tick + o.Tick
}

// Validate reports every value that is out of range and every contradiction in one
// error that names the properties and the remedy.
func (o Options) Validate() error {
	var c complaints
	o.validatePeers(&c)
	return o.validateRest(c)
}

// ValidateRest is Validate without the peers: for a caller that could not read their
// list and has said so.
func (o Options) ValidateRest() error { return o.validateRest(nil) }

func (o *Options) validateRest(c complaints) error {
	o.validateTimes(&c)
	o.validateLease(&c)
	if len(c) > 0 {
		return fmt.Errorf("controller options: %s", strings.Join(c, "; "))
	}
	return nil
}

// complaints collects what is wrong.
type complaints []string

// unless adds the complaint when ok does not hold.
func (c *complaints) unless(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Sprintf(format, args...))
	}
}

func (o *Options) validatePeers(c *complaints) {
	n := len(o.Peers)
	c.unless(o.ControllerGroup != "" && len(o.ControllerGroup) <= maxText, "controllerDLegerGroup must be set, at most %d bytes", maxText)
	c.unless(n >= 1 && n <= maxControllers, "controllerDLegerPeers lists %d controllers: list 1 to %d, normally 3 or 5", n, maxControllers)
	c.unless(n%2 == 1 || n == 0 || o.AllowEvenPeers,
		"controllerDLegerPeers lists %d controllers: an even number survives no more failures than %d; remove or add one, or set allowEvenControllers=true", n, n-1)
	ids, addrs := map[string]string{}, map[string]string{}
	for _, p := range o.Peers {
		_, ok := raftID(p.Node)
		c.unless(ok, "controller id %q: ids are n0, n1, n2, …", p.Node)
		c.unless(ids[p.Node] == "", "controller id %s is listed twice", p.Node)
		ids[p.Node] = p.Node
		o.validateAddr(c, p.Node, "raft", p.Raft, addrs)
		o.validateAddr(c, p.Node, "broker-facing", p.Addr, addrs)
	}
	c.unless(ids[o.SelfID] != "", "controllerDLegerSelfId %q is not among the peers", o.SelfID)
}

// validateAddr refuses an address that is listed twice, above all a raft address
// given as a broker-facing one: brokers would speak to the wrong port.
func (o *Options) validateAddr(c *complaints, id, use, addr string, seen map[string]string) {
	c.unless(node.Dialable(addr), "%s address %q of controller %s is not host:port, with a host name or an IP address", use, addr, id)
	this := use + " address of " + id
	c.unless(seen[addr] == "", "%s is both the %s and the %s: controllers and brokers need ports of their own", addr, seen[addr], this)
	seen[addr] = this
}

func (o *Options) validateTimes(c *complaints) {
	positive := func(name string, d, least, most time.Duration) {
		c.unless(d >= least && d <= most, "%s is %v: use %v to %v", name, d, least, most)
	}
	positive("scanNotActiveBrokerInterval", o.ScanNotActiveBrokerInterval, time.Millisecond, time.Hour)
	positive("controllerHeartBeatTimeoutMills", o.HeartbeatTimeout, time.Millisecond, time.Hour)
	positive("sessionCloseGraceMillis", o.SessionCloseGrace, 0, time.Hour)
	positive("firstElectionWaitMillis", o.FirstElectionWait, 0, time.Hour)
	positive("notifyRetryMillis", o.NotifyInterval, time.Millisecond, maxNotifyPause)
	positive("brokerHeartbeatInterval", o.BrokerHeartbeatInterval, time.Millisecond, time.Minute)
	positive("controllerTickMillis", o.Tick, time.Millisecond, 10*time.Second)
	positive("controllerRequestTimeoutMillis", o.RequestTimeout, time.Millisecond, time.Minute)
	positive("redialPauseMillis", o.RedialPause, time.Millisecond, time.Minute)
	c.unless(o.HeartbeatTicks >= 1 && o.ElectionTicks >= 2*o.HeartbeatTicks && o.ElectionTicks <= 1000,
		"controllerElectionTicks %d must be at least twice controllerHeartbeatTicks %d, which is at least 1", o.ElectionTicks, o.HeartbeatTicks)
	c.unless(o.HeartbeatTimeout >= 2*o.BrokerHeartbeatInterval,
		"controllerHeartBeatTimeoutMills %v must be at least twice brokerHeartbeatInterval %v: one lost heartbeat would be a failover", o.HeartbeatTimeout, o.BrokerHeartbeatInterval)
	c.unless(o.SnapshotEvery >= 1 && o.SnapshotEvery <= 1<<20, "controllerSnapshotEntries %d: use 1 to %d", o.SnapshotEvery, 1<<20)
	c.unless(o.KeepEntries >= 0 && o.KeepEntries <= 1<<20, "controllerKeepEntries %d: use 0 to %d", o.KeepEntries, 1<<20)
}

// validateLease refuses a lease that a change of the leading controller would let
// run out: losing a controller must never fence a healthy master.
func (o *Options) validateLease(c *complaints) {
	used := o.WriteLease != LeaseOff
	for _, g := range o.GroupLeases {
		used = used || g.Mode != LeaseOff
		c.unless(g.Group != "" && g.Mode <= LeaseOff, "writeLeaseGroups: group %q with mode %d", g.Group, g.Mode)
	}
	c.unless(o.WriteLease <= LeaseOff, "writeLease has an unknown value: use required, offered or off")
	if !used {
		return
	}
	least := o.electionTimeout() + 2*o.BrokerHeartbeatInterval + o.CommitTimeout
	c.unless(o.LeaseDuration <= maxLease, "writeLeaseMillis %v is above %v: a master that dies is replaced only after its lease", o.LeaseDuration, maxLease)
	c.unless(o.LeaseMargin > 0 && o.LeaseMargin < o.LeaseDuration, "writeLeaseMarginMillis %v must be above 0 and below writeLeaseMillis %v", o.LeaseMargin, o.LeaseDuration)
	c.unless(o.LeaseDuration-o.LeaseMargin >= least,
		"writeLeaseMillis %v less writeLeaseMarginMillis %v is shorter than a controller election, two heartbeats and a commit (%v): a change of the leading controller would stop healthy masters; raise writeLeaseMillis to at least %v", o.LeaseDuration, o.LeaseMargin, least, least+o.LeaseMargin)
}
