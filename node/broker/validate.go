package broker

import (
	"fmt"
	"strings"
	"time"

	"lockstep/internal/ha"
	"lockstep/node"
)

// Validate reports every value that is out of range and every pair that
// contradicts itself, in one error that names the properties and the remedy.
func (o Options) Validate() error {
	var c complaints
	o.validateNames(&c)
	o.validateReplicas(&c)
	o.validateLease(&c)
	o.validateTimes(&c)
	o.validateSizes(&c)
	o.validateServices(&c)
	if len(c) > 0 {
		return fmt.Errorf("broker options: %s", strings.Join(c, "; "))
	}
	return nil
}

// complaints collects what is wrong.
type complaints []string

func (c *complaints) addf(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

// unless adds the complaint when ok does not hold.
func (c *complaints) unless(ok bool, format string, args ...any) {
	if !ok {
		c.addf(format, args...)
	}
}

func (o *Options) validateNames(c *complaints) {
	c.unless(o.BrokerName != "", "brokerName is empty: name the group, the same on each of its replicas")
	c.unless(o.BrokerClusterName != "", "brokerClusterName is empty")
	validName(c, "brokerName", o.BrokerName)
	validName(c, "brokerClusterName", o.BrokerClusterName)
	c.unless(node.Dialable(o.Address), "brokerAddr %q is nothing clients can dial: set brokerIP1 to a host name or an IP address, and listenPort", o.Address)
	c.unless(node.Dialable(o.HAAddress), "haServerAddr %q is nothing slaves can dial: set brokerIP2 to a host name or an IP address, and haListenPort", o.HAAddress)
	c.unless(o.Address == "" || o.Address != o.HAAddress,
		"brokerAddr and haServerAddr are both %s: replication needs a port of its own (haListenPort)", o.Address)
	c.unless(len(o.ControllerAddr) > 0,
		"controllerAddr is empty: list the controllers' broker-facing addresses, separated by ;")
	c.unless(len(o.ControllerAddr) <= maxControllers, "controllerAddr lists %d controllers, at most %d", len(o.ControllerAddr), maxControllers)
	c.unless(len(o.NamesrvAddr) <= maxNamesrvs, "namesrvAddr lists %d name servers, at most %d", len(o.NamesrvAddr), maxNamesrvs)
	seen := map[string]bool{}
	for _, a := range o.ControllerAddr {
		c.unless(node.Dialable(a), "controllerAddr %q is not host:port", a)
		c.unless(a != o.Address && a != o.HAAddress, "controllerAddr %s is this broker's own address", a)
		c.unless(!seen[a], "controllerAddr lists %s twice", a)
		seen[a] = true
	}
	for _, a := range o.NamesrvAddr {
		c.unless(node.Dialable(a), "namesrvAddr %q is not host:port", a)
	}
}

// validName holds the names of groups and clusters to RocketMQ's rule for topics,
// because each is a topic's name too (systemTopic). Dots inside are taken as well:
// RocketMQ's default brokerName is the host's name.
func validName(c *complaints, key, name string) {
	bad := func(r rune) bool { return r > 127 || r != '.' && !nameByte(byte(r)) }
	c.unless(len(name) <= maxTopicName && !strings.ContainsFunc(name, bad) && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "."),
		"%s %q: use 1 to %d of letters, digits, %% | _ - and, inside, dots", key, name, maxTopicName)
}

func (o *Options) validateReplicas(c *complaints) {
	n := o.TotalReplicas
	c.unless(n >= 1 && n <= maxReplicas, "totalReplicas %d is not in 1..%d", n, maxReplicas)
	c.unless(o.MinInSyncReplicas >= 0, "minInSyncReplicas %d is negative; 0 means the default", o.MinInSyncReplicas)
	c.unless(o.MinInSyncReplicas <= n,
		"minInSyncReplicas %d is above totalReplicas %d: no write could ever be admitted; lower the floor or add replicas", o.MinInSyncReplicas, n)
	c.unless(o.AllAckInSyncStateSet || o.InSyncReplicas >= 1 && o.InSyncReplicas <= n, // without effect it is no fault
		"inSyncReplicas %d is not in 1..totalReplicas %d: no write could ever be acknowledged", o.InSyncReplicas, n)
	c.unless(o.AckClass == ha.ClassDurable || o.AckClass == ha.ClassReceived, "ackClass %v is neither durable nor received", o.AckClass)
	c.unless(o.BrokerRole != AsyncMaster || !o.AllAckInSyncStateSet,
		"brokerRole ASYNC_MASTER contradicts allAckInSyncStateSet=true: choose SYNC_MASTER, or switch allAckInSyncStateSet off")
	c.unless(o.BrokerRole != AsyncMaster || o.InSyncReplicas == 1,
		"brokerRole ASYNC_MASTER contradicts inSyncReplicas %d: choose SYNC_MASTER, or inSyncReplicas 1", o.InSyncReplicas)
}

func (o *Options) validateLease(c *complaints) {
	switch o.WriteLease {
	case LeaseOff:
		return
	case LeaseOffered:
		c.addf("writeLease=offered is for groups under Java controllers, which this version does not join: use required or off")
		return
	case LeaseRequired:
	default:
		c.addf("writeLease %d is unknown: use required or off", o.WriteLease)
		return
	}
	c.unless(o.LeaseDuration <= maxLease, "writeLeaseMillis %v is above %v: a master that dies is replaced only after its lease", o.LeaseDuration, maxLease)
	c.unless(o.LeaseMargin >= minLeaseMargin, "writeLeaseMarginMillis %v is below %v", o.LeaseMargin, minLeaseMargin)
	// Losing a controller leader must never fence a master: what is left of a grant
	// after one missed heartbeat must span an election and the commit after it.
	need := o.LeaseMargin + 2*o.ControllerElectionTimeout + o.BrokerHeartbeatInterval + leaseCommitAllowance
	c.unless(o.LeaseDuration >= need,
		"writeLeaseMillis %v is too short: margin %v + controller election %v + heartbeat %v + commit %v need %v, or each controller failover stops writes",
		o.LeaseDuration, o.LeaseMargin, 2*o.ControllerElectionTimeout, o.BrokerHeartbeatInterval, leaseCommitAllowance, need)
}

func (o *Options) validateTimes(c *complaints) {
	for _, t := range []struct {
		name   string
		value  time.Duration
		lo, hi time.Duration
	}{
		{"haMaxTimeSlaveNotCatchup", o.HAMaxTimeSlaveNotCatchup, time.Millisecond, time.Hour},
		{"checkSyncStateSetPeriod", o.CheckSyncStateSetPeriod, time.Millisecond, time.Hour},
		{"brokerHeartbeatInterval", o.BrokerHeartbeatInterval, time.Millisecond, time.Minute},
		{"controllerHeartBeatTimeoutMills", o.ControllerHeartBeatTimeout, time.Millisecond, time.Hour},
		{"syncBrokerMetadataPeriod", o.SyncBrokerMetadataPeriod, time.Millisecond, time.Hour},
		{"syncControllerMetadataPeriod", o.SyncControllerMetadataPeriod, time.Millisecond, time.Hour},
		{"controllerRequestTimeoutMillis", o.ControllerRequestTimeout, time.Millisecond, time.Minute},
		{"registerNameServerPeriod", o.RegisterNameServerPeriod, time.Millisecond, time.Minute},
		{"redialPauseMillis", o.RedialPause, time.Millisecond, time.Minute},
		{"slaveTimeout", o.SlaveTimeout, time.Millisecond, time.Hour},
		{"syncFlushTimeout", o.SyncFlushTimeout, time.Millisecond, time.Hour},
		{"waitTimeMillsInSendQueue", o.WaitTimeMillsInSendQueue, time.Millisecond, time.Hour},
		{"haSendHeartbeatInterval", o.HASendHeartbeatInterval, time.Millisecond, time.Hour},
		{"haHousekeepingInterval", o.HAHousekeepingInterval, time.Millisecond, time.Hour},
		{"haJoinTimeoutMillis", o.HAJoinTimeout, time.Millisecond, time.Minute},
		{"handoverTimeoutMillis", o.HandoverTimeout, time.Millisecond, time.Hour},
		{"fileReservedTime", o.FileReservedTime, time.Second, 100 * 365 * 24 * time.Hour},
		{"cleanResourceInterval", o.CleanResourceInterval, time.Millisecond, 24 * time.Hour},
		{"retentionWaitMillis", o.RetentionWait, 0, 24 * time.Hour},
		{"tailIdleMillis", o.TailIdle, time.Millisecond, time.Hour},
		{"flushIntervalCommitLog", o.FlushIntervalCommitLog, time.Millisecond, time.Minute},
		{"flushCheckpointInterval", o.CheckpointInterval, time.Millisecond, time.Hour},
		{"flushIntervalConsumeQueue", o.QueueFlushInterval, time.Millisecond, time.Minute},
		{"diskRetryPauseMillis", o.DiskRetryPause, time.Millisecond, time.Minute},
	} {
		unit := "milliseconds"
		if t.name == "fileReservedTime" {
			unit = "hours"
		}
		c.unless(t.value >= t.lo && t.value <= t.hi, "%s %v is not in %v..%v (a plain number is %s)", t.name, t.value, t.lo, t.hi, unit)
	}
	c.unless(o.ControllerHeartBeatTimeout >= 2*o.BrokerHeartbeatInterval,
		"controllerHeartBeatTimeoutMills %v is below two heartbeats of %v: one lost heartbeat would be a failover", o.ControllerHeartBeatTimeout, o.BrokerHeartbeatInterval)
	c.unless(o.HAHousekeepingInterval > o.HASendHeartbeatInterval,
		"haHousekeepingInterval %v is not above haSendHeartbeatInterval %v: idle sessions would be closed", o.HAHousekeepingInterval, o.HASendHeartbeatInterval)
}

func (o *Options) validateSizes(c *complaints) {
	for _, s := range []struct {
		name   string
		value  int64
		lo, hi int64
	}{
		{"haTransferBatchSize", int64(o.HATransferBatchSize), 64, 8 << 20},
		{"haTransferWindowBytes", o.HATransferWindow, int64(o.HATransferBatchSize), 1 << 30},
		{"maxHaTransferByteInSecond", o.MaxHATransferByteInSecond, 0, 1 << 50},
		{"haJoinLagBytes", o.HAJoinLag, 0, 1 << 40},
		{"mappedFileSizeCommitLog", o.MappedFileSizeCommitLog, 4 << 10, 16 << 30},
		{"maxTailBytes", o.MaxTailBytes, 64 << 10, 64 << 30},
		{"maxUnwrittenBytes", o.MaxUnwrittenBytes, 64 << 10, 64 << 30},
		{"maxWaiters", int64(o.MaxWaiters), 1, 10_000_000},
	} {
		c.unless(s.value >= s.lo && s.value <= s.hi, "%s %d is not in %d..%d", s.name, s.value, s.lo, s.hi)
	}
}

// Limits of configuration.
const (
	maxReplicas          = 64
	maxControllers       = 16
	maxNamesrvs          = 32
	maxLease             = time.Hour
	minLeaseMargin       = 10 * time.Millisecond
	leaseCommitAllowance = 500 * time.Millisecond // one commit of the controllers' log
)
