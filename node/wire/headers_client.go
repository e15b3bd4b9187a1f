package wire

// Headers of client management, topics, groups and statistics (wire contracts
// 2.3, 2.4).

// ClientHeartbeatResponse answers 34.
type ClientHeartbeatResponse struct {
	HeartbeatV2 bool `ext:"IS_SUPPORT_HEART_BEAT_V2,always"`
	SubChange   bool `ext:"IS_SUB_CHANGE,always"` // true asks the client for its full subscriptions
}

// UnregisterClientRequest is the header of code 35.
type UnregisterClientRequest struct {
	ClientID      string `ext:"clientID,required"`
	ProducerGroup string `ext:"producerGroup"`
	ConsumerGroup string `ext:"consumerGroup"`
}

// ConsumerGroupRequest is the header of codes 38, 40 and 203.
type ConsumerGroupRequest struct {
	ConsumerGroup string `ext:"consumerGroup,required"`
}

// ProducerGroupRequest is the header of code 204.
type ProducerGroupRequest struct {
	ProducerGroup string `ext:"producerGroup,required"`
}

// CreateTopicRequest is the header of code 17.
type CreateTopicRequest struct {
	Topic           string `ext:"topic,required"`
	DefaultTopic    string `ext:"defaultTopic,required"` // ignored by brokers, demanded by Java
	ReadQueueNums   int32  `ext:"readQueueNums,required"`
	WriteQueueNums  int32  `ext:"writeQueueNums,required"`
	Perm            int32  `ext:"perm,required"`            // PermRead | PermWrite | PermInherit
	TopicFilterType string `ext:"topicFilterType,required"` // SINGLE_TAG or MULTI_TAG
	TopicSysFlag    int32  `ext:"topicSysFlag"`
	Order           bool   `ext:"order"`
	Attributes      string `ext:"attributes"` // "+key=value,-key"
	Force           bool   `ext:"force"`
}

// TopicRequest is the header of codes 215, 351 and 202.
type TopicRequest struct {
	Topic string `ext:"topic,required"`
}

// AllTopicConfigRequest is the header of code 21; an empty one asks for all.
type AllTopicConfigRequest struct {
	TopicSeq    int32  `ext:"topicSeq"` // first topic of the page, in name order
	DataVersion string `ext:"dataVersion"`
	MaxTopicNum int32  `ext:"maxTopicNum"` // 0: everything
}

// AllTopicConfigResponse answers 21.
type AllTopicConfigResponse struct {
	TotalTopicNum int32 `ext:"totalTopicNum,always"`
}

// AllGroupConfigRequest is the header of code 201; an empty one asks for all.
type AllGroupConfigRequest struct {
	GroupSeq    int32  `ext:"groupSeq"`
	DataVersion string `ext:"dataVersion"`
	MaxGroupNum int32  `ext:"maxGroupNum"`
}

// AllGroupConfigResponse answers 201.
type AllGroupConfigResponse struct {
	TotalGroupNum int32 `ext:"totalGroupNum,always"`
}

// GroupConfigRequest is the header of code 352.
type GroupConfigRequest struct {
	Group string `ext:"group,required"`
}

// DeleteGroupRequest is the header of code 207.
type DeleteGroupRequest struct {
	GroupName   string `ext:"groupName,required"`
	CleanOffset bool   `ext:"cleanOffset"`
}

// BrokerConfigResponse answers 26; the body is "key=value" lines.
type BrokerConfigResponse struct {
	Version string `ext:"version,always"` // DataVersion as JSON text
}

// ConsumeStatsRequest is the header of code 208.
type ConsumeStatsRequest struct {
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic"`
	TopicList     string `ext:"topicList"` // separated by ";"
}

// Permission bits of topics and brokers.
const (
	PermInherit int32 = 1 // topics may be created after this one
	PermWrite   int32 = 2
	PermRead    int32 = 4
)
