package wire

// Bodies of topics, groups, routes and clients (wire contracts 2.3–2.6). They
// are written by MarshalBody and read by UnmarshalBody, which accepts what
// fastjson and RocketMQ's clients write.

// DataVersion is the version of a table; all three members are compared.
type DataVersion struct {
	Counter int64 `json:"counter"`
	// StateVersion is the master epoch in controller mode: the name server's fence.
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // milliseconds since 1970
}

// TopicConfig is one topic.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"` // SINGLE_TAG or MULTI_TAG
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"` // 1 unit, 2 unit-sub
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// TopicConfigWrapper is the body of code 21 and, with its mapping members, part
// of RegisterBrokerBody.
type TopicConfigWrapper struct {
	DataVersion        DataVersion            `json:"dataVersion"`
	MappingDataVersion DataVersion            `json:"mappingDataVersion"`
	TopicConfigTable   map[string]TopicConfig `json:"topicConfigTable"`
	// Mappings of static topics; Lockstep writes them empty.
	MappingDetails map[string]struct{} `json:"topicQueueMappingDetailMap"`
	MappingInfos   map[string]struct{} `json:"topicQueueMappingInfoMap"`
}

// RegisterBrokerBody is the body of code 103.
type RegisterBrokerBody struct {
	FilterServerList []string           `json:"filterServerList"`
	Topics           TopicConfigWrapper `json:"topicConfigSerializeWrapper"`
}

// KVTable is the body of codes 28, 219 and of the answer to 103.
type KVTable struct {
	Table map[string]string `json:"table"`
}

// TopicList is the body of code 206 and its relatives.
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	TopicList  []string `json:"topicList"`
}

// SubscriptionGroupConfig is one consumer group.
type SubscriptionGroupConfig struct {
	GroupName                      string            `json:"groupName"`
	ConsumeEnable                  bool              `json:"consumeEnable"`
	ConsumeFromMinEnable           bool              `json:"consumeFromMinEnable"`
	ConsumeBroadcastEnable         bool              `json:"consumeBroadcastEnable"`
	ConsumeMessageOrderly          bool              `json:"consumeMessageOrderly"`
	RetryQueueNums                 int32             `json:"retryQueueNums"`
	RetryMaxTimes                  int32             `json:"retryMaxTimes"`
	GroupRetryPolicy               GroupRetryPolicy  `json:"groupRetryPolicy"`
	BrokerID                       int64             `json:"brokerId"` // role id to read from
	WhichBrokerWhenConsumeSlowly   int64             `json:"whichBrokerWhenConsumeSlowly"`
	NotifyConsumerIDsChangedEnable bool              `json:"notifyConsumerIdsChangedEnable"`
	GroupSysFlag                   int32             `json:"groupSysFlag"`
	ConsumeTimeoutMinute           int32             `json:"consumeTimeoutMinute"`
	Attributes                     map[string]string `json:"attributes"`
}

// GroupRetryPolicy says how retries are spaced; only Type is interpreted.
type GroupRetryPolicy struct {
	Type string `json:"type"` // CUSTOMIZED or EXPONENTIAL
}

// NewSubscriptionGroup returns a group with RocketMQ's defaults. UnmarshalBody
// into it keeps the default of every member that is missing.
func NewSubscriptionGroup(name string) SubscriptionGroupConfig {
	return SubscriptionGroupConfig{
		GroupName: name, ConsumeEnable: true, ConsumeFromMinEnable: true, ConsumeBroadcastEnable: true,
		RetryQueueNums: 1, RetryMaxTimes: 16, GroupRetryPolicy: GroupRetryPolicy{Type: "CUSTOMIZED"},
		WhichBrokerWhenConsumeSlowly: 1, NotifyConsumerIDsChangedEnable: true, ConsumeTimeoutMinute: 15,
	}
}

// GroupConfigWrapper is the body of code 201.
type GroupConfigWrapper struct {
	DataVersion    DataVersion                        `json:"dataVersion"`
	ForbiddenTable map[string]map[string]int32        `json:"forbiddenTable"`
	Groups         map[string]SubscriptionGroupConfig `json:"subscriptionGroupTable"`
}

// RouteData is the body of code 105.
type RouteData struct {
	BrokerDatas       []BrokerData        `json:"brokerDatas"`
	FilterServerTable map[string][]string `json:"filterServerTable"`
	OrderTopicConf    string              `json:"orderTopicConf,omitempty"`
	QueueDatas        []QueueData         `json:"queueDatas"`
}

// BrokerData is one broker group: all its addresses by role id (0 is the master).
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs"`
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitempty"`
}

// QueueData says how many queues of the topic a broker group carries.
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// ClusterInfo is the body of code 106.
type ClusterInfo struct {
	BrokerAddrTable  map[string]BrokerData `json:"brokerAddrTable"`
	ClusterAddrTable map[string][]string   `json:"clusterAddrTable"`
}

// BrokerMemberGroup is a broker group by its member ids.
type BrokerMemberGroup struct {
	BrokerAddrs map[int64]string `json:"brokerAddrs"`
	BrokerName  string           `json:"brokerName"`
	Cluster     string           `json:"cluster"`
}

// MemberGroupBody is the body of code 901.
type MemberGroupBody struct {
	Group BrokerMemberGroup `json:"brokerMemberGroup"`
}
