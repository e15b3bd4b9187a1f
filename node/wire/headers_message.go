package wire

// Headers of sending, pulling and offsets (wire contracts 2.1, 2.2). The rules
// of the ext tags are in ext.go.

// SendMessageRequest is the header of codes 10, 310, 320, 324 and 325. Codes 10
// and 324 spell the fields long, the others with letters.
type SendMessageRequest struct {
	ProducerGroup         string `ext:"producerGroup,letter=a,required"`
	Topic                 string `ext:"topic,letter=b,required"`
	DefaultTopic          string `ext:"defaultTopic,letter=c,required"`          // template for creating the topic, normally TBW102
	DefaultTopicQueueNums int32  `ext:"defaultTopicQueueNums,letter=d,required"` // queues wanted when created
	QueueID               int32  `ext:"queueId,letter=e,required"`               // negative: the broker picks a write queue
	SysFlag               int32  `ext:"sysFlag,letter=f,required"`               // wire contracts 4.2
	BornTimestamp         int64  `ext:"bornTimestamp,letter=g,required"`         // milliseconds since 1970, client's clock
	Flag                  int32  `ext:"flag,letter=h,required"`                  // the application's, stored verbatim
	Properties            string `ext:"properties,letter=i"`                     // name \x01 value \x02 …; at most 32767 bytes
	ReconsumeTimes        int32  `ext:"reconsumeTimes,letter=j"`                 // above 0 when a consumer sends to its retry topic
	UnitMode              bool   `ext:"unitMode,letter=k"`
	MaxReconsumeTimes     int32  `ext:"maxReconsumeTimes,letter=l"` // 0: not given
	Batch                 bool   `ext:"batch,letter=m"`             // the body is a batch; this selects the path, not the code
	BrokerName            string `ext:"bname,letter=n"`
}

// SendMessageResponse is the header of a stored send: codes 0, 10, 11 and 12.
type SendMessageResponse struct {
	MsgID         string          `ext:"msgId,required"` // offset message id; a batch joins its ids with commas
	Stored        OffsetMessageID `ext:"-"`              // written as msgId when MsgID is "" (saves the text)
	QueueID       int32           `ext:"queueId,required"`
	QueueOffset   int64           `ext:"queueOffset,required"` // of the first entry of a batch
	TransactionID string          `ext:"transactionId"`        // UNIQ_KEY of the message
	BatchUniqID   string          `ext:"batchUniqId"`
	RecallHandle  string          `ext:"recallHandle"`
	Region        string          `ext:"MSG_REGION"`
	TraceOn       string          `ext:"TRACE_ON"` // "true" or "false": should clients trace; absent reads as true in Java
	// Durability is what a code of 0 proves, one of the texts below. Absent from a
	// Java broker, and where nothing was waited for.
	Durability string `ext:"lsDurability"`
}

// Texts of SendMessageResponse.Durability, weakest first.
const (
	DurabilityLocal      = "local"               // the master's own watermark
	DurabilityReceived   = "replicated-received" // replicas counted, not all of them durable
	DurabilityReplicated = "replicated"          // every copy counted is durable
)

// PullRequest is the header of codes 11 and 361.
type PullRequest struct {
	ConsumerGroup        string `ext:"consumerGroup,required"`
	Topic                string `ext:"topic,required"`
	QueueID              int32  `ext:"queueId,required"`
	QueueOffset          int64  `ext:"queueOffset,required"`
	MaxMsgNums           int32  `ext:"maxMsgNums,required"` // 0 still delivers one
	SysFlag              int32  `ext:"sysFlag,required"`    // Pull… flags
	CommitOffset         int64  `ext:"commitOffset,required"`
	SuspendTimeoutMillis int64  `ext:"suspendTimeoutMillis,required"`
	SubVersion           int64  `ext:"subVersion,required"`
	Subscription         string `ext:"subscription"`
	ExpressionType       string `ext:"expressionType"` // "TAG" (also "") or "SQL92"
	MaxMsgBytes          int32  `ext:"maxMsgBytes"`
	RequestSource        int32  `ext:"requestSource"`
	ProxyForwardClientID string `ext:"proxyFrowardClientId"` // misspelt in the contract
	BrokerName           string `ext:"bname"`
}

// Flags of PullRequest.SysFlag, OR-ed.
const (
	PullCommitOffset int32 = 1  // CommitOffset is valid: store it
	PullSuspend      int32 = 2  // may be held until something arrives
	PullSubscription int32 = 4  // Subscription replaces the registered one
	PullClassFilter  int32 = 8  // obsolete
	PullLite         int32 = 16 // lite pull consumer
)

// PullResponse is the header of answers 0, 19, 20 and 21. Head.Remark carries the
// name of the store status.
type PullResponse struct {
	SuggestWhichBrokerID int64 `ext:"suggestWhichBrokerId,required"` // role id to ask next: 0 is the master
	NextBeginOffset      int64 `ext:"nextBeginOffset,required"`
	MinOffset            int64 `ext:"minOffset,required"`
	MaxOffset            int64 `ext:"maxOffset,required"`
	OffsetDelta          int64 `ext:"offsetDelta"`
	TopicSysFlag         int32 `ext:"topicSysFlag"`
	GroupSysFlag         int32 `ext:"groupSysFlag"`
	ForbiddenType        int32 `ext:"forbiddenType"` // with code 16: 1 broker, 2 group, 3 topic, 4 broadcast, 5 subscription
}

// QueryOffsetRequest is the header of code 14.
type QueryOffsetRequest struct {
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"`
	// KeepUnset: do not answer 0 for a group without an offset, but 22.
	KeepUnset  bool   `ext:"setZeroIfNotFound,not"`
	BrokerName string `ext:"bname"`
}

// UpdateOffsetRequest is the header of code 15, one-way from Java.
type UpdateOffsetRequest struct {
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic,required"`
	QueueID       int32  `ext:"queueId,required"`
	CommitOffset  int64  `ext:"commitOffset,required"`
	BrokerName    string `ext:"bname"`
}

// QueueOffsetRequest is the header of codes 30, 31 and 32.
type QueueOffsetRequest struct {
	Topic   string `ext:"topic,required"`
	QueueID int32  `ext:"queueId,required"`
	// Uncommitted (code 30): count entries not yet confirmed by replicas.
	Uncommitted bool   `ext:"committed,not"`
	BrokerName  string `ext:"bname"`
}

// SearchOffsetRequest is the header of code 29.
type SearchOffsetRequest struct {
	Topic     string `ext:"topic,required"`
	QueueID   int32  `ext:"queueId,required"`
	Timestamp int64  `ext:"timestamp,required"` // milliseconds since 1970, store time
	// BoundaryType is LOWER (also "") or UPPER, in any case of letters.
	BoundaryType string `ext:"boundaryType"`
	BrokerName   string `ext:"bname"`
}

// OffsetResponse answers 14, 29, 30 and 31 with a queue offset.
type OffsetResponse struct {
	Offset int64 `ext:"offset,required"`
}

// TimestampResponse answers 32; −1 when nothing is stored.
type TimestampResponse struct {
	Timestamp int64 `ext:"timestamp,required"` // milliseconds since 1970
}

// ViewMessageRequest is the header of code 33.
type ViewMessageRequest struct {
	Offset int64  `ext:"offset,required"` // commit log offset
	Topic  string `ext:"topic"`
}

// QueryMessageRequest is the header of code 12.
type QueryMessageRequest struct {
	Topic          string `ext:"topic,required"`
	Key            string `ext:"key,required"`
	MaxNum         int32  `ext:"maxNum,required"`
	BeginTimestamp int64  `ext:"beginTimestamp,required"`
	EndTimestamp   int64  `ext:"endTimestamp,required"`
	Unique         bool   `ext:"_UNIQUE_KEY_QUERY"`
}

// QueryMessageResponse answers 12; the body is the messages.
type QueryMessageResponse struct {
	IndexLastUpdateTimestamp int64 `ext:"indexLastUpdateTimestamp,required"`
	IndexLastUpdatePhyOffset int64 `ext:"indexLastUpdatePhyoffset,required"`
}

// SendBackRequest is the header of code 36.
type SendBackRequest struct {
	Offset            int64  `ext:"offset,required"` // commit log offset of the message
	Group             string `ext:"group,required"`
	DelayLevel        int32  `ext:"delayLevel,required"` // negative: dead letter; 0: the broker decides
	OriginMsgID       string `ext:"originMsgId"`
	OriginTopic       string `ext:"originTopic"`
	UnitMode          bool   `ext:"unitMode"`
	MaxReconsumeTimes *int32 `ext:"maxReconsumeTimes"` // nil: the group's retryMaxTimes
	BrokerName        string `ext:"bname"`
}
