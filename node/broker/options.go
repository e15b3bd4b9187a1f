package broker

import (
	"time"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// Options configure one broker. Tags name RocketMQ's property (or Lockstep's own,
// where RocketMQ has none). DefaultOptions gives the safe defaults of the design,
// not RocketMQ's; docs list each difference.
type Options struct {
	ServiceOptions

	// BrokerName is the group's name: all replicas of one log share it.
	BrokerName string `key:"brokerName"`
	// BrokerClusterName is the cluster the group belongs to.
	BrokerClusterName string `key:"brokerClusterName"`
	// Listen is the remoting listener, host:port.
	Listen string `key:"listenAddr"`
	// HAListen is the replication listener, host:port.
	HAListen string `key:"haListenAddr"`
	// Address is what others dial for remoting, host:port (brokerIP1:listenPort).
	Address string `key:"brokerAddr"`
	// HAAddress is what slaves dial, host:port (brokerIP2:haListenPort).
	HAAddress string `key:"haServerAddr"`
	// StoreHost is the host:port written into records; Address when empty.
	StoreHost string `key:"storeHost"`
	// ControllerAddr lists the controllers' broker-facing addresses.
	ControllerAddr []string `key:"controllerAddr"`
	// NamesrvAddr lists the name servers.
	NamesrvAddr []string `key:"namesrvAddr"`

	// FlushDiskType decides what the local watermark is: durable or written (P11).
	FlushDiskType FlushDiskType `key:"flushDiskType"`
	// BrokerRole is SYNC_MASTER (wait for replicas) or ASYNC_MASTER (never wait).
	BrokerRole Role `key:"brokerRole"`
	// AllAckInSyncStateSet makes each member of the SyncStateSet acknowledge a
	// write; it overrides InSyncReplicas.
	AllAckInSyncStateSet bool `key:"allAckInSyncStateSet"`
	// InSyncReplicas is how many members, the master counted, acknowledge a write
	// when AllAckInSyncStateSet is off. 1..TotalReplicas.
	InSyncReplicas int `key:"inSyncReplicas"`
	// MinInSyncReplicas is the least size of the committed set at which writes are
	// admitted and acknowledged. 1..TotalReplicas; 0 means min(2, TotalReplicas).
	MinInSyncReplicas int `key:"minInSyncReplicas"`
	// TotalReplicas is the size of the group, this broker counted. 1..64.
	TotalReplicas int `key:"totalReplicas"`
	// AsyncLearner makes this a replica that is never elected and never counted.
	AsyncLearner bool `key:"asyncLearner"`
	// AckClass is what this broker's acknowledgements promise as a slave, and the
	// least it accepts from members as a master (P13). Durable or received.
	AckClass ha.AckClass `key:"ackClass"`
	// BrokerElectionPriority breaks ties in elections; smaller wins.
	BrokerElectionPriority int32 `key:"brokerElectionPriority"`

	// WriteLease says whether writes need a lease from the controllers.
	WriteLease WriteLease `key:"writeLease"`
	// LeaseDuration is the grant the controllers are configured to give; it is
	// known here only to refuse a lease shorter than a controller election.
	LeaseDuration time.Duration `key:"writeLeaseMillis"`
	// ControllerElectionTimeout is the controllers' election time-out, likewise.
	ControllerElectionTimeout time.Duration `key:"controllerElectionTimeoutMillis"`
	// LeaseMargin is the least safety margin accepted in a grant: the longest time
	// from checking the lease to the acknowledgement leaving (P12). ≥ 100 ms.
	LeaseMargin time.Duration `key:"writeLeaseMarginMillis"`

	// HAMaxTimeSlaveNotCatchup: a member that has not been caught up for this long
	// leaves the set.
	HAMaxTimeSlaveNotCatchup time.Duration `key:"haMaxTimeSlaveNotCatchup"`
	// CheckSyncStateSetPeriod is how often lagging members are looked for.
	CheckSyncStateSetPeriod time.Duration `key:"checkSyncStateSetPeriod"`
	// BrokerHeartbeatInterval is the time between heartbeats to controllers.
	BrokerHeartbeatInterval time.Duration `key:"brokerHeartbeatInterval"`
	// ControllerHeartBeatTimeout is after how long of silence the controllers take
	// this broker for dead (RocketMQ spells it controllerHeartBeatTimeoutMills).
	ControllerHeartBeatTimeout time.Duration `key:"controllerHeartBeatTimeoutMills"`
	// SyncBrokerMetadataPeriod is the time between polls of the controller's record.
	SyncBrokerMetadataPeriod time.Duration `key:"syncBrokerMetadataPeriod"`
	// SyncControllerMetadataPeriod is the time between look-ups of the leader.
	SyncControllerMetadataPeriod time.Duration `key:"syncControllerMetadataPeriod"`
	// ControllerRequestTimeout ends one request to a controller (unknown outcome).
	ControllerRequestTimeout time.Duration `key:"controllerRequestTimeoutMillis"`
	// RegisterNameServerPeriod is the time between name server registrations,
	// 10–60 s.
	RegisterNameServerPeriod time.Duration `key:"registerNameServerPeriod"`
	// RedialPause is the time between two attempts to reach one address.
	RedialPause time.Duration `key:"redialPauseMillis"`

	// SlaveTimeout ends a producer's wait for replicas.
	SlaveTimeout time.Duration `key:"slaveTimeout"`
	// SyncFlushTimeout ends a producer's wait for the local disk alone.
	SyncFlushTimeout time.Duration `key:"syncFlushTimeout"`
	// WaitTimeMillsInSendQueue: when the disk has been stuck for this long, new
	// sends are refused as busy instead of joining the queue.
	WaitTimeMillsInSendQueue time.Duration `key:"waitTimeMillsInSendQueue"`

	// HATransferBatchSize is the largest body of one replication frame, bytes.
	HATransferBatchSize int `key:"haTransferBatchSize"`
	// HATransferWindow is how many unacknowledged bytes may be under way to one
	// slave; it bounds the slave's memory.
	HATransferWindow int64 `key:"haTransferWindowBytes"`
	// MaxHATransferByteInSecond throttles the transfer to each slave, bytes a
	// second. 0 means no limit.
	MaxHATransferByteInSecond int64 `key:"maxHaTransferByteInSecond"`
	// HASendHeartbeatInterval is the longest silence towards the other end of a
	// replication session.
	HASendHeartbeatInterval time.Duration `key:"haSendHeartbeatInterval"`
	// HAHousekeepingInterval: a replication session silent for longer is closed.
	HAHousekeepingInterval time.Duration `key:"haHousekeepingInterval"`
	// HAJoinLag is how far behind a slave may be when it begins to join, bytes (P14).
	HAJoinLag int64 `key:"haJoinLagBytes"`
	// HAJoinTimeout abandons a join that holds up acknowledgements (P14).
	HAJoinTimeout time.Duration `key:"haJoinTimeoutMillis"`
	// HandoverTimeout bounds a graceful stop of a master: the wait for the set and
	// for the election of a successor (P20).
	HandoverTimeout time.Duration `key:"handoverTimeoutMillis"`

	// FileReservedTime is the age at which log segments are removed.
	FileReservedTime time.Duration `key:"fileReservedTime" unit:"h"`
	// CleanResourceInterval is the time between looks for expired segments.
	CleanResourceInterval time.Duration `key:"cleanResourceInterval"`
	// RetentionWait is how long removal waits for a slave in catch-up (P19).
	RetentionWait time.Duration `key:"retentionWaitMillis"`
	// MappedFileSizeCommitLog is the segment size of the commit log, bytes. It must
	// be the same on all replicas and never changes for a store.
	MappedFileSizeCommitLog int64 `key:"mappedFileSizeCommitLog"`
	// EnabledAppendPropCRC says that records carry the property CRC.
	EnabledAppendPropCRC bool `key:"enabledAppendPropCRC"`
	// MaxTailBytes bounds the newest part of the log kept in memory.
	MaxTailBytes int64 `key:"maxTailBytes"`
	// TailIdle: after this long without an append the tail's memory is released.
	TailIdle time.Duration `key:"tailIdleMillis"`
	// MaxUnwrittenBytes bounds appended bytes not yet handed to the disk; beyond it
	// sends are refused as busy.
	MaxUnwrittenBytes int64 `key:"maxUnwrittenBytes"`
	// MaxWaiters bounds the producers waiting for an answer.
	MaxWaiters int `key:"maxWaiters"`
	// FlushIntervalCommitLog is how long written bytes stay unsynced under
	// ASYNC_FLUSH.
	FlushIntervalCommitLog time.Duration `key:"flushIntervalCommitLog"`
	// CheckpointInterval is the time between checkpoints of the durable floor (P5c).
	CheckpointInterval time.Duration `key:"flushCheckpointInterval"`
	// QueueFlushInterval is how long consume queue entries are collected.
	QueueFlushInterval time.Duration `key:"flushIntervalConsumeQueue"`
	// DiskRetryPause is the time between attempts to write to a full disk.
	DiskRetryPause time.Duration `key:"diskRetryPauseMillis"`
}

// FlushDiskType says when a local append counts.
type FlushDiskType uint8

// The flush types.
const (
	SyncFlush  FlushDiskType = iota // when it is synced
	AsyncFlush                      // when it is written to the operating system
)

// String is RocketMQ's spelling.
func (f FlushDiskType) String() string { return [...]string{"SYNC_FLUSH", "ASYNC_FLUSH"}[f%2] }

// Role says whether a master waits for replicas at all.
type Role uint8

// The roles. In controller mode the controllers decide who is master.
const (
	SyncMaster Role = iota
	AsyncMaster
)

// String is RocketMQ's spelling.
func (r Role) String() string { return [...]string{"SYNC_MASTER", "ASYNC_MASTER"}[r%2] }

// WriteLease says whether writing needs a lease.
type WriteLease uint8

// The lease modes.
const (
	LeaseRequired WriteLease = iota // no lease, no write
	LeaseOff                        // a healthy master goes on without controllers
	LeaseOffered                    // required once a controller offered one
)

// String is the spelling of configuration.
func (w WriteLease) String() string { return [...]string{"required", "off", "offered"}[w%3] }

// DefaultOptions are the safe defaults for a group of three; addresses and names
// are the caller's.
func DefaultOptions() Options {
	return Options{
		ServiceOptions:               DefaultServiceOptions(),
		BrokerClusterName:            "DefaultCluster",
		FlushDiskType:                SyncFlush,
		BrokerRole:                   SyncMaster,
		AllAckInSyncStateSet:         true,
		InSyncReplicas:               1,
		TotalReplicas:                3,
		AckClass:                     ha.ClassDurable,
		BrokerElectionPriority:       1<<31 - 1,
		WriteLease:                   LeaseRequired,
		LeaseDuration:                10 * time.Second,
		ControllerElectionTimeout:    time.Second,
		LeaseMargin:                  time.Second,
		HAMaxTimeSlaveNotCatchup:     15 * time.Second,
		CheckSyncStateSetPeriod:      5 * time.Second,
		BrokerHeartbeatInterval:      time.Second,
		ControllerHeartBeatTimeout:   10 * time.Second,
		SyncBrokerMetadataPeriod:     5 * time.Second,
		SyncControllerMetadataPeriod: 10 * time.Second,
		ControllerRequestTimeout:     3 * time.Second,
		RegisterNameServerPeriod:     30 * time.Second,
		RedialPause:                  500 * time.Millisecond,
		SlaveTimeout:                 3 * time.Second,
		SyncFlushTimeout:             5 * time.Second,
		WaitTimeMillsInSendQueue:     200 * time.Millisecond,
		HATransferBatchSize:          128 << 10,
		HATransferWindow:             8 << 20,
		HASendHeartbeatInterval:      5 * time.Second,
		HAHousekeepingInterval:       20 * time.Second,
		HAJoinLag:                    4 << 20,
		HAJoinTimeout:                2 * time.Second,
		HandoverTimeout:              5 * time.Second,
		FileReservedTime:             72 * time.Hour,
		CleanResourceInterval:        10 * time.Second,
		RetentionWait:                10 * time.Minute,
		MappedFileSizeCommitLog:      1 << 30,
		EnabledAppendPropCRC:         true,
		MaxTailBytes:                 64 << 20,
		TailIdle:                     5 * time.Second,
		MaxUnwrittenBytes:            32 << 20,
		MaxWaiters:                   100_000,
		FlushIntervalCommitLog:       500 * time.Millisecond,
		CheckpointInterval:           time.Second,
		QueueFlushInterval:           200 * time.Millisecond,
		DiskRetryPause:               time.Second,
	}
}

// policy is the acknowledgement policy the options ask for.
func (o *Options) policy() AckPolicy {
	switch {
	case o.BrokerRole == AsyncMaster:
		return AckPolicy{Kind: LocalDurable}
	case o.AllAckInSyncStateSet:
		return AckPolicy{Kind: AllInSyncSet}
	case o.InSyncReplicas <= 1:
		return AckPolicy{Kind: LocalDurable}
	}
	return AckPolicy{Kind: ReplicaCount, Count: o.InSyncReplicas}
}

// replicated reports whether the policy waits for other replicas.
func (o *Options) replicated() bool { return o.policy().Kind != LocalDurable }

// waitTimeout is how long a producer waits for the policy.
func (o *Options) waitTimeout() time.Duration {
	if o.replicated() {
		return o.SlaveTimeout
	}
	return o.SyncFlushTimeout
}

// controllerSilence is after how long without any answer a second stream to a
// controller is tried. Each heartbeat is answered, at the latest when the controller gives a
// read barrier up; and a new stream should carry a heartbeat before this broker
// counts as silent.
func (o *Options) controllerSilence() time.Duration {
	return max(o.ControllerRequestTimeout, min(2*o.ControllerRequestTimeout, o.ControllerHeartBeatTimeout*2/3))
}

// ackInterval is the longest silence of a slave that has everything. Its master
// calls it lagging by what it heard last, so in an idle group it must speak up
// several times within haMaxTimeSlaveNotCatchup, or the set would flap.
func (o *Options) ackInterval() time.Duration {
	return min(o.HASendHeartbeatInterval, o.HAMaxTimeSlaveNotCatchup/3)
}

// MinInSync is the effective floor: the configured one, or min(2, replicas).
func (o *Options) MinInSync() int {
	if o.MinInSyncReplicas > 0 {
		return o.MinInSyncReplicas
	}
	return min(2, o.TotalReplicas)
}

// maxRecordBytes is the longest record of the log: it must leave room for the
// blank record at a segment's end, and fit a frame.
func (o *Options) maxRecordBytes() int {
	return int(min(o.MappedFileSizeCommitLog-blankBytes, wire.MaxReplicaBodyBytes-2*blankBytes))
}

// blankBytes is the least size of a blank record: total size and magic.
const blankBytes = 8
