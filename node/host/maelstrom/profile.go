package maelstrom

import (
	"fmt"
	"strings"
	"time"

	"lockstep/node/broker"
	"lockstep/node/controller"
	"lockstep/node/host/maelstrom/session"
)

// Profile is one set of timers for the whole node. Maelstrom cuts the network for
// ten seconds or so, and after the last cut gives ten seconds of peace and ten to
// read everything; a failover has to fit several times. The relations between the
// timers are the product's own: Options are checked as any daemon's are at its start.
type Profile struct {
	// Session: silence that ends a link, and the longest silence kept.
	GiveUp, KeepAlive, AckDelay, ResendMin, ResendMax time.Duration

	Tick                          time.Duration // of raft
	ElectionTicks, HeartbeatTicks int
	BrokerHeartbeat               time.Duration // to the controllers
	BrokerSilence                 time.Duration // after which a master counts as dead
	Scan                          time.Duration // between looks for silent masters
	FirstElection                 time.Duration // wait for the replicas of a new group
	Lease, LeaseMargin            time.Duration
	ControllerCommit              time.Duration
	ControllerRequest             time.Duration // a broker's request to a controller
	Redial                        time.Duration
	Metadata                      time.Duration // polls of record and leader
	HAHeartbeat, HAHousekeeping   time.Duration
	NotCatchup, CheckSet, Join    time.Duration // leaving and joining the in-sync set
	CommitOffsets                 time.Duration // consumer offsets gather this long
	Replicas                      time.Duration // a send waits for its replicas
	// Answer is the age at which a request of the queues is answered with an error, and
	// AnswerRegister one of lin-kv. They lie below the clients' own limits (5 s and 1 s):
	// a client that gave up may be gone, and Maelstrom never reads again from a node that
	// sends to a name that is gone.
	Answer, AnswerRegister time.Duration
}

// DefaultProfile suits mean latencies up to about 100 ms; scale multiplies every
// timer but the answers', for slower networks or machines.
func DefaultProfile(scale int) Profile {
	ms := time.Millisecond * time.Duration(max(scale, 1))
	return Profile{
		GiveUp: 1500 * ms, KeepAlive: 400 * ms, AckDelay: 120 * ms, ResendMin: 200 * ms, ResendMax: 500 * ms,
		Tick: 100 * ms, ElectionTicks: 6, HeartbeatTicks: 3,
		BrokerHeartbeat: 500 * ms, BrokerSilence: 1600 * ms, Scan: 250 * ms, FirstElection: 500 * ms,
		Lease: 3200 * ms, LeaseMargin: 500 * ms, ControllerCommit: 400 * ms, ControllerRequest: 1000 * ms,
		Redial: 200 * ms, Metadata: 1000 * ms, HAHeartbeat: 500 * ms, HAHousekeeping: 2500 * ms,
		NotCatchup: 1500 * ms, CheckSet: 250 * ms, Join: 1000 * ms, CommitOffsets: 5 * ms, Replicas: 4000 * ms,
		Answer: 4500 * time.Millisecond, AnswerRegister: 950 * time.Millisecond,
	}
}

// String is the profile in a few lines.
func (p Profile) String() string {
	var b strings.Builder
	for _, t := range []struct {
		name  string
		value any
	}{
		{"link: give up", p.GiveUp}, {"keep alive", p.KeepAlive}, {"resend", fmt.Sprintf("%v..%v", p.ResendMin, p.ResendMax)},
		{"raft: election", fmt.Sprintf("%v..%v", time.Duration(p.ElectionTicks)*p.Tick, 2*time.Duration(p.ElectionTicks)*p.Tick)},
		{"heartbeat", time.Duration(p.HeartbeatTicks) * p.Tick},
		{"master: lease", p.Lease}, {"margin", p.LeaseMargin}, {"heartbeat", p.BrokerHeartbeat}, {"dead after", p.BrokerSilence},
		{"in-sync set: leave after", p.NotCatchup}, {"looked at every", p.CheckSet},
		{"answers: queues within", p.Answer}, {"lin-kv within", p.AnswerRegister},
	} {
		sep := ", "
		if strings.Contains(t.name, ":") {
			sep = "; "
		}
		if b.Len() == 0 {
			sep = ""
		}
		fmt.Fprintf(&b, "%s%s %v", sep, t.name, t.value)
	}
	return b.String()
}

// The ports of a node, as its machines know them; on the wire they are the labels
// of streams.
const (
	portBroker     = 1 // remoting: sends, pulls, offsets, notices of the controllers
	portReplicas   = 2 // replication
	portController = 3 // remoting of the controller
	portRaft       = 4 // between controllers
)

// group is the name of the broker group, of its cluster and of the consumer group.
const group = "maelstrom"

// addrOf is the address that machines know node i of the list by.
func addrOf(i, port int) string { return fmt.Sprintf("10.77.%d.%d:%d", i/250, i%250+1, port) }

// brokerOptions are those of node self of n.
func (p Profile) brokerOptions(self, n int) broker.Options {
	o := broker.DefaultOptions()
	o.BrokerName, o.BrokerClusterName = group, group
	o.Address, o.HAAddress = addrOf(self, portBroker), addrOf(self, portReplicas)
	o.Listen, o.HAListen = o.Address, o.HAAddress
	for i := range n {
		o.ControllerAddr = append(o.ControllerAddr, addrOf(i, portController))
	}
	o.TotalReplicas = n
	// With fewer, the set might lie wholly outside of the majority that a cut leaves:
	// controllers would go on there and find nobody to elect.
	o.MinInSyncReplicas = n/2 + 1
	o.SlaveReadEnable = true
	o.AutoCreateTopicEnable = false
	o.MaxTopics = 100_000
	o.LeaseDuration, o.LeaseMargin = p.Lease, p.LeaseMargin
	o.ControllerElectionTimeout = time.Duration(p.ElectionTicks) * p.Tick
	o.BrokerHeartbeatInterval, o.ControllerHeartBeatTimeout = p.BrokerHeartbeat, p.BrokerSilence
	// Who leads is asked at once where it matters: an answer is missing, or a refusal.
	o.SyncBrokerMetadataPeriod, o.SyncControllerMetadataPeriod = p.Metadata, 3*p.Metadata
	o.ControllerRequestTimeout, o.RedialPause = p.ControllerRequest, p.Redial
	o.HASendHeartbeatInterval, o.HAHousekeepingInterval = p.HAHeartbeat, p.HAHousekeeping
	o.HAMaxTimeSlaveNotCatchup, o.CheckSyncStateSetPeriod, o.HAJoinTimeout = p.NotCatchup, p.CheckSet, p.Join
	o.FlushConsumerOffsetInterval = p.CommitOffsets
	o.SlaveTimeout, o.SyncFlushTimeout = p.Replicas, p.Replicas
	o.WaitTimeMillsInSendQueue, o.WaitTimeMillsInPullQueue = p.Replicas, p.Replicas
	o.MappedFileSizeCommitLog = segmentBytes
	o.MaxTailBytes, o.TailIdle = 4<<20, time.Minute // the last polls come after a pause
	o.MaxDiskReads = 16 << 10
	o.MetaCheckpointBytes = segmentBytes
	return o
}

// segmentBytes is the size of a commit log segment: each node of a test has at
// least two, allocated whole.
const segmentBytes = 16 << 20

// controllerOptions are those of node self of n.
func (p Profile) controllerOptions(self, n int) controller.Options {
	o := controller.DefaultOptions()
	o.ControllerGroup = group
	o.SelfID = controllerID(self)
	for i := range n {
		o.Peers = append(o.Peers, controller.Peer{Node: controllerID(i), Raft: addrOf(i, portRaft), Addr: addrOf(i, portController)})
	}
	o.AllowEvenPeers, o.Initialise = true, true // Maelstrom chooses how many there are
	o.ScanNotActiveBrokerInterval, o.HeartbeatTimeout, o.SessionCloseGrace = p.Scan, p.BrokerSilence, p.BrokerSilence
	o.FirstElectionWait, o.NotifyInterval = p.FirstElection, p.Redial
	o.LeaseDuration, o.LeaseMargin, o.BrokerHeartbeatInterval, o.CommitTimeout = p.Lease, p.LeaseMargin, p.BrokerHeartbeat, p.ControllerCommit
	o.Tick, o.ElectionTicks, o.HeartbeatTicks = p.Tick, p.ElectionTicks, p.HeartbeatTicks
	o.RequestTimeout, o.RedialPause = p.Replicas, p.Redial
	return o
}

// controllerID is the configured id of node i's controller.
func controllerID(i int) string { return fmt.Sprintf("n%d", i) }

// sessionOptions are those of the links.
func (p Profile) sessionOptions(peers []string, life uint64, accept func(string) bool) session.Options {
	return session.Options{Peers: peers, Life: life, Accept: accept,
		KeepAlive: p.KeepAlive, GiveUp: p.GiveUp, AckDelay: p.AckDelay, ResendMin: p.ResendMin, ResendMax: p.ResendMax}
}

// Validate applies the start-up rules of broker and controller to a group of n.
func (p Profile) Validate(n int) error {
	if err := p.brokerOptions(0, n).Validate(); err != nil {
		return err
	}
	if err := p.controllerOptions(0, n).Validate(); err != nil {
		return err
	}
	if p.GiveUp <= 2*p.KeepAlive || p.ResendMin <= p.AckDelay || p.ResendMax < p.ResendMin || p.Answer <= 0 || p.AnswerRegister <= 0 {
		return fmt.Errorf("links: give up %v must be above two silences of %v, resend %v above the acknowledgement's delay %v, and answers wait some time", p.GiveUp, p.KeepAlive, p.ResendMin, p.AckDelay)
	}
	return nil
}
