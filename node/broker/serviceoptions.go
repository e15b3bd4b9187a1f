package broker

import "time"

// ServiceOptions configure what clients see: topics, groups, sending, pulling.
// Tags name RocketMQ's property, or Lockstep's own where RocketMQ has none.
type ServiceOptions struct {
	// RegionID goes into MSG_REGION of messages and answers.
	RegionID string `key:"regionId"`
	// TraceOn tells clients whether to send message traces.
	TraceOn bool `key:"traceOn"`
	// BrokerPermission is the broker-wide permission: 6 read and write, 4 read only,
	// 2 write only.
	BrokerPermission int32 `key:"brokerPermission"`

	// AutoCreateTopicEnable creates a topic at the first send, after the template
	// TBW102 (wire contracts 4.10).
	AutoCreateTopicEnable bool `key:"autoCreateTopicEnable"`
	// AutoCreateSubscriptionGroup creates a consumer group at first use.
	AutoCreateSubscriptionGroup bool `key:"autoCreateSubscriptionGroup"`
	// DefaultTopicQueueNums is the template's number of queues. 1..1024.
	DefaultTopicQueueNums int32 `key:"defaultTopicQueueNums"`

	// MaxMessageSize bounds the body of a message or batch, bytes.
	MaxMessageSize int `key:"maxMessageSize"`

	// SlaveReadEnable lets slaves answer pulls, bounded by the confirm offset they
	// were told; off, as in RocketMQ, a slave refuses them.
	SlaveReadEnable bool `key:"slaveReadEnable"`
	// LongPollingEnable holds a pull that found nothing for as long as it allows;
	// off, it is held for ShortPollingTime.
	LongPollingEnable bool          `key:"longPollingEnable"`
	ShortPollingTime  time.Duration `key:"shortPollingTimeMills"`
	// WaitTimeMillsInPullQueue: a pull that waited longer for this broker's loop is
	// refused as busy.
	WaitTimeMillsInPullQueue time.Duration `key:"waitTimeMillsInPullQueue"`
	// MaxMsgsNumBatch bounds the messages of one pull answer, whatever was asked.
	MaxMsgsNumBatch int `key:"maxMsgsNumBatch"`
	// MaxTransferBytesOnMessageInMemory and MaxTransferBytesOnMessageInDisk bound the
	// body of one pull answer, bytes; the first message always fits.
	MaxTransferBytesOnMessageInMemory int `key:"maxTransferBytesOnMessageInMemory"`
	MaxTransferBytesOnMessageInDisk   int `key:"maxTransferBytesOnMessageInDisk"`
	// MaxTransferCountOnMessageInMemory and MaxTransferCountOnMessageInDisk bound the
	// number of its messages.
	MaxTransferCountOnMessageInMemory int `key:"maxTransferCountOnMessageInMemory"`
	MaxTransferCountOnMessageInDisk   int `key:"maxTransferCountOnMessageInDisk"`
	// YoungTopicBytes: a group without an offset starts a queue at 0 while the
	// queue's first message lies within this many bytes of the log's end (code 14).
	// It stands for the memory window of RocketMQ.
	YoungTopicBytes int64 `key:"youngTopicBytes"`

	// FlushConsumerOffsetInterval is how long offset commits are collected before
	// they go into the log as one record (rule M4).
	FlushConsumerOffsetInterval time.Duration `key:"flushConsumerOffsetInterval"`
	// MetaCheckpointBytes: after this many log bytes a complete metadata checkpoint
	// is written; never more than one segment apart (rule M3). Bytes.
	MetaCheckpointBytes int64 `key:"metaCheckpointBytes"`
	// ClientExpiry drops a client that has sent no heartbeat for so long.
	ClientExpiry time.Duration `key:"channelExpiredTimeout"`
	// RebalanceLockMaxLiveTime is how long a queue lock lives without renewal.
	RebalanceLockMaxLiveTime time.Duration `key:"rebalanceLockMaxLiveTime"`

	// MaxTopics, MaxGroups and MaxOffsetRows (group and topic pairs) bound the
	// replicated tables.
	MaxTopics     int `key:"maxTopics"`
	MaxGroups     int `key:"maxGroups"`
	MaxOffsetRows int `key:"maxOffsetRows"`
	// MaxClients bounds the registrations of clients in groups; MaxSubscriptions the
	// subscriptions of one group.
	MaxClients       int `key:"maxClients"`
	MaxSubscriptions int `key:"maxSubscriptions"`
	// MaxHeldPulls bounds the pulls held in long polling; beyond it a pull that
	// found nothing is answered at once.
	MaxHeldPulls int `key:"maxHeldPulls"`
	// MaxDiskReads bounds the reads that wait for the disk; beyond it requests that
	// need one are refused as busy.
	MaxDiskReads int `key:"maxDiskReads"`
	// MaxQueueLocks bounds the queue locks of all groups.
	MaxQueueLocks int `key:"maxQueueLocks"`
}

// Fixed limits of the services.
const (
	// maxQueues bounds the queues of one topic.
	maxQueues = 16384
	// maxTopicName and maxGroupName are in bytes; retry and dead-letter topics may
	// reach maxSystemTopicName.
	maxTopicName       = 127
	maxSystemTopicName = 255
	maxGroupName       = 120
	// maxClientID bounds client ids, bytes.
	maxClientID = 512
	// maxBatch bounds the messages of one batch: the ids of all of them have to fit
	// the header of the answer.
	maxBatch = 8192
	// maxPullAnswerBytes caps a pull answer well below the frame limit of readers.
	maxPullAnswerBytes = 8 << 20
	// maxScanEntries bounds the queue entries looked at by one pull.
	maxScanEntries = 16000 / 20
	// maxAttributes bounds the attributes of a topic or group.
	maxAttributes = 64
	// maxLockQueues bounds the queues of one lock request.
	maxLockQueues = 4096
	// maxSuspend bounds how long a pull may ask to be held.
	maxSuspend = 10 * time.Minute
)

// DefaultServiceOptions are RocketMQ's defaults where it has the property.
func DefaultServiceOptions() ServiceOptions {
	return ServiceOptions{
		RegionID:                          "DefaultRegion",
		TraceOn:                           true,
		BrokerPermission:                  6,
		AutoCreateTopicEnable:             true,
		AutoCreateSubscriptionGroup:       true,
		DefaultTopicQueueNums:             8,
		MaxMessageSize:                    4 << 20,
		LongPollingEnable:                 true,
		ShortPollingTime:                  time.Second,
		WaitTimeMillsInPullQueue:          5 * time.Second,
		MaxMsgsNumBatch:                   1024,
		MaxTransferBytesOnMessageInMemory: 256 << 10,
		MaxTransferBytesOnMessageInDisk:   64 << 10,
		MaxTransferCountOnMessageInMemory: 32,
		MaxTransferCountOnMessageInDisk:   8,
		YoungTopicBytes:                   1 << 30,
		FlushConsumerOffsetInterval:       200 * time.Millisecond,
		MetaCheckpointBytes:               64 << 20,
		ClientExpiry:                      120 * time.Second,
		RebalanceLockMaxLiveTime:          60 * time.Second,
		MaxTopics:                         10_000,
		MaxGroups:                         10_000,
		MaxOffsetRows:                     100_000,
		MaxClients:                        100_000,
		MaxSubscriptions:                  1024,
		MaxHeldPulls:                      100_000,
		MaxDiskReads:                      1024,
		MaxQueueLocks:                     100_000,
	}
}

// validateServices adds what is wrong with the service options.
func (o *ServiceOptions) validateServices(c *complaints) {
	c.unless(o.BrokerPermission == 2 || o.BrokerPermission == 4 || o.BrokerPermission == 6,
		"brokerPermission %d is not 6 (read and write), 4 (read) or 2 (write)", o.BrokerPermission)
	for _, t := range []struct {
		name          string
		value, lo, hi time.Duration
	}{
		{"shortPollingTimeMills", o.ShortPollingTime, time.Millisecond, time.Minute},
		{"waitTimeMillsInPullQueue", o.WaitTimeMillsInPullQueue, time.Millisecond, time.Hour},
		{"flushConsumerOffsetInterval", o.FlushConsumerOffsetInterval, time.Millisecond, time.Hour},
		{"channelExpiredTimeout", o.ClientExpiry, time.Millisecond, 24 * time.Hour},
		{"rebalanceLockMaxLiveTime", o.RebalanceLockMaxLiveTime, time.Millisecond, 24 * time.Hour},
	} {
		c.unless(t.value >= t.lo && t.value <= t.hi, "%s %v is not in %v..%v", t.name, t.value, t.lo, t.hi)
	}
	for _, s := range []struct {
		name          string
		value, lo, hi int64
	}{
		{"defaultTopicQueueNums", int64(o.DefaultTopicQueueNums), 1, 1024},
		{"maxMessageSize", int64(o.MaxMessageSize), 1, 4 << 20},
		{"maxMsgsNumBatch", int64(o.MaxMsgsNumBatch), 1, 32768},
		{"maxTransferBytesOnMessageInMemory", int64(o.MaxTransferBytesOnMessageInMemory), 1, maxPullAnswerBytes},
		{"maxTransferBytesOnMessageInDisk", int64(o.MaxTransferBytesOnMessageInDisk), 1, maxPullAnswerBytes},
		{"maxTransferCountOnMessageInMemory", int64(o.MaxTransferCountOnMessageInMemory), 1, 32768},
		{"maxTransferCountOnMessageInDisk", int64(o.MaxTransferCountOnMessageInDisk), 1, 32768},
		{"youngTopicBytes", o.YoungTopicBytes, 0, 1 << 50},
		{"metaCheckpointBytes", o.MetaCheckpointBytes, 4 << 10, 16 << 30},
		{"maxTopics", int64(o.MaxTopics), 1, 1_000_000},
		{"maxGroups", int64(o.MaxGroups), 1, 1_000_000},
		{"maxOffsetRows", int64(o.MaxOffsetRows), 1, 10_000_000},
		{"maxClients", int64(o.MaxClients), 1, 10_000_000},
		{"maxSubscriptions", int64(o.MaxSubscriptions), 1, 100_000},
		{"maxHeldPulls", int64(o.MaxHeldPulls), 0, 10_000_000},
		{"maxDiskReads", int64(o.MaxDiskReads), 1, 1_000_000},
		{"maxQueueLocks", int64(o.MaxQueueLocks), 1, 10_000_000},
	} {
		c.unless(s.value >= s.lo && s.value <= s.hi, "%s %d is not in %d..%d", s.name, s.value, s.lo, s.hi)
	}
}
