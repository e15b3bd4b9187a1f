package wire

// Bodies of client management (wire contracts 2.3).

// HeartbeatData is the body of code 34.
type HeartbeatData struct {
	ClientID             string         `json:"clientID"`
	ProducerDataSet      []ProducerData `json:"producerDataSet"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet"`
	HeartbeatFingerprint int64          `json:"heartbeatFingerprint"` // 0: version 1
	WithoutSub           bool           `json:"withoutSub"`           // keep the subscriptions you have
}

// ProducerData is a producer group the client belongs to.
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// ConsumerData is a consumer group the client belongs to.
type ConsumerData struct {
	GroupName        string             `json:"groupName"`
	ConsumeType      string             `json:"consumeType"`      // CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP
	MessageModel     string             `json:"messageModel"`     // CLUSTERING, BROADCASTING
	ConsumeFromWhere string             `json:"consumeFromWhere"` // CONSUME_FROM_LAST_OFFSET, …
	UnitMode         bool               `json:"unitMode"`
	Subscriptions    []SubscriptionData `json:"subscriptionDataSet"`
}

// SubscriptionData is a consumer's filter on one topic. CodeSet is computed by
// clients and wrong for non-ASCII tags of Go clients: compute it from TagsSet.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	Topic           string   `json:"topic"`
	SubString       string   `json:"subString"` // "*", "a || b", or an SQL92 expression
	TagsSet         []string `json:"tagsSet"`
	CodeSet         []int32  `json:"codeSet"`
	SubVersion      int64    `json:"subVersion"`
	ExpressionType  string   `json:"expressionType"` // TAG or SQL92
}

// The values of consumer data members.
const (
	ConsumeActively     = "CONSUME_ACTIVELY"
	ConsumePassively    = "CONSUME_PASSIVELY"
	ModelClustering     = "CLUSTERING"
	ModelBroadcasting   = "BROADCASTING"
	ConsumeFromLast     = "CONSUME_FROM_LAST_OFFSET"
	ConsumeFromFirst    = "CONSUME_FROM_FIRST_OFFSET"
	ConsumeFromTime     = "CONSUME_FROM_TIMESTAMP"
	ExpressionTag       = "TAG"
	ExpressionSQL92     = "SQL92"
	FilterTypeSingleTag = "SINGLE_TAG"
	FilterTypeMultiTag  = "MULTI_TAG"
)

// ConsumerList is the body of the answer to code 38.
type ConsumerList struct {
	ConsumerIDs []string `json:"consumerIdList"`
}

// MessageQueue names one queue. As a map key it is written as an object, the one
// form every Java version reads (wire contracts 1.6).
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// LockBatchRequest is the body of codes 41 and 42.
type LockBatchRequest struct {
	ConsumerGroup  string         `json:"consumerGroup"`
	ClientID       string         `json:"clientId"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
	Queues         []MessageQueue `json:"mqSet"`
}

// LockBatchResponse is the body of the answer to 41: all queues the client holds.
type LockBatchResponse struct {
	Locked []MessageQueue `json:"lockOKMQSet"`
}

// CheckClientRequest is the body of code 46.
type CheckClientRequest struct {
	ClientID     string            `json:"clientId"`
	Group        string            `json:"group"`
	Namespace    string            `json:"namespace,omitempty"`
	Subscription *SubscriptionData `json:"subscriptionData,omitempty"`
}

// Connection is one connected client.
type Connection struct {
	ClientAddr string `json:"clientAddr"`
	ClientID   string `json:"clientId"`
	Language   string `json:"language"`
	Version    int32  `json:"version"`
}

// ConsumerConnection is the body of code 203.
type ConsumerConnection struct {
	ConnectionSet     []Connection                `json:"connectionSet"`
	ConsumeFromWhere  string                      `json:"consumeFromWhere"`
	ConsumeType       string                      `json:"consumeType"`
	MessageModel      string                      `json:"messageModel"`
	SubscriptionTable map[string]SubscriptionData `json:"subscriptionTable"`
}

// ProducerConnection is the body of code 204.
type ProducerConnection struct {
	ConnectionSet []Connection `json:"connectionSet"`
}

// TopicStats is the body of code 202.
type TopicStats struct {
	OffsetTable map[MessageQueue]TopicOffset `json:"offsetTable"`
	TopicPutTPS float64                      `json:"topicPutTps"`
}

// TopicOffset is the state of one queue.
type TopicOffset struct {
	LastUpdateTimestamp int64 `json:"lastUpdateTimestamp"` // milliseconds since 1970; 0 when empty
	MaxOffset           int64 `json:"maxOffset"`
	MinOffset           int64 `json:"minOffset"`
}

// ConsumeStats is the body of code 208.
type ConsumeStats struct {
	ConsumeTPS  float64                        `json:"consumeTps"`
	OffsetTable map[MessageQueue]ConsumeOffset `json:"offsetTable"`
}

// ConsumeOffset is a group's progress on one queue.
type ConsumeOffset struct {
	BrokerOffset   int64 `json:"brokerOffset"`   // max offset
	ConsumerOffset int64 `json:"consumerOffset"` // committed; 0 when none
	LastTimestamp  int64 `json:"lastTimestamp"`  // store time of the last consumed message
	PullOffset     int64 `json:"pullOffset"`
}

// ConsumerOffsets is the body of code 43; keys are "topic@group" and queue ids.
type ConsumerOffsets struct {
	DataVersion DataVersion                `json:"dataVersion"`
	OffsetTable map[string]map[int32]int64 `json:"offsetTable"`
}

// DelayOffsets is the body of code 45; keys are delay levels.
type DelayOffsets struct {
	DataVersion DataVersion     `json:"dataVersion"`
	OffsetTable map[int32]int64 `json:"offsetTable"`
}

// RequestMode is one entry of code 402: how a group gets its messages.
type RequestMode struct {
	ConsumerGroup    string `json:"consumerGroup"`
	Mode             string `json:"mode"` // PULL or POP
	PopShareQueueNum int32  `json:"popShareQueueNum"`
	Topic            string `json:"topic"`
}

// RequestModes is the body of code 402, by topic and group.
type RequestModes struct {
	Modes map[string]map[string]RequestMode `json:"messageRequestModeMap"`
}

// ResetOffsets is the body of codes 220 and 222.
type ResetOffsets struct {
	OffsetTable map[MessageQueue]int64 `json:"offsetTable"`
}
