package wire

import "strconv"

// Request codes of the remoting protocol (wire contracts section 2.0). A code
// without a handler is answered with CodeRequestCodeNotSupported.

// Requests: sending.
const (
	ReqSendMessage      int32 = 10  // SEND_MESSAGE: one message or batch, long header names
	ReqSendMessageV2    int32 = 310 // SEND_MESSAGE_V2: one message or batch, header names are letters
	ReqSendBatch        int32 = 320 // SEND_BATCH_MESSAGE: a batch, header names are letters
	ReqSendReply        int32 = 324 // SEND_REPLY_MESSAGE: answer of the request/reply pattern, long names
	ReqSendReplyV2      int32 = 325 // SEND_REPLY_MESSAGE_V2: the same with letters
	ReqPushReply        int32 = 326 // PUSH_REPLY_MESSAGE_TO_CLIENT: broker → client: a reply arrived
	ReqSendBack         int32 = 36  // CONSUMER_SEND_MSG_BACK: redeliver a message later
	ReqEndTransaction   int32 = 37  // END_TRANSACTION: commit or roll back a half message
	ReqCheckTransaction int32 = 39  // CHECK_TRANSACTION_STATE: broker → client: what became of the half message
	ReqResumeCheckHalf  int32 = 323 // RESUME_CHECK_HALF_MESSAGE: check a half message again
	ReqRecallMessage    int32 = 370 // RECALL_MESSAGE: withdraw a timer message
)

// Requests: pulling and offsets.
const (
	ReqPull                 int32 = 11  // PULL_MESSAGE: messages of one queue from an offset on
	ReqLitePull             int32 = 361 // LITE_PULL_MESSAGE: the same for lite pull consumers
	ReqQueryMessage         int32 = 12  // QUERY_MESSAGE: messages by key
	ReqViewMessage          int32 = 33  // VIEW_MESSAGE_BY_ID: one message by commit log offset
	ReqSearchOffset         int32 = 29  // SEARCH_OFFSET_BY_TIMESTAMP: queue offset by store time
	ReqGetMaxOffset         int32 = 30  // GET_MAX_OFFSET: next queue offset to be written
	ReqGetMinOffset         int32 = 31  // GET_MIN_OFFSET: first queue offset still stored
	ReqGetEarliestStoreTime int32 = 32  // GET_EARLIEST_MSG_STORETIME: store time of the first message of a queue
	ReqQueryConsumeQueue    int32 = 321 // QUERY_CONSUME_QUEUE: raw consume queue entries
	ReqQueryConsumerOffset  int32 = 14  // QUERY_CONSUMER_OFFSET: committed offset of a group
	ReqUpdateConsumerOffset int32 = 15  // UPDATE_CONSUMER_OFFSET: commit an offset
)

// Requests: pop consumption (codes above 32767 exist in JSON headers only).
const (
	ReqPop                      int32 = 200050 // POP_MESSAGE: take messages with an invisible time
	ReqAck                      int32 = 200051 // ACK_MESSAGE: acknowledge a popped message
	ReqBatchAck                 int32 = 200151 // BATCH_ACK_MESSAGE: acknowledge many
	ReqPeek                     int32 = 200052 // PEEK_MESSAGE: look without taking
	ReqChangeInvisible          int32 = 200053 // CHANGE_MESSAGE_INVISIBLETIME: prolong or shorten the invisible time
	ReqNotification             int32 = 200054 // NOTIFICATION: long poll for "something arrived"
	ReqPollingInfo              int32 = 200055 // POLLING_INFO: how many polls wait
	ReqQueryAssignment          int32 = 400    // QUERY_ASSIGNMENT: broker-side rebalance
	ReqSetMessageRequestMode    int32 = 401    // SET_MESSAGE_REQUEST_MODE: pull or pop for a group
	ReqGetAllMessageRequestMode int32 = 402    // GET_ALL_MESSAGE_REQUEST_MODE: slave → master: the modes of all groups
)

// Requests: client management.
const (
	ReqHeartbeat              int32 = 34  // HEART_BEAT: client → broker: who I am, what I subscribe
	ReqUnregisterClient       int32 = 35  // UNREGISTER_CLIENT: leave the named groups
	ReqCheckClientConfig      int32 = 46  // CHECK_CLIENT_CONFIG: does this subscription compile
	ReqGetConsumerList        int32 = 38  // GET_CONSUMER_LIST_BY_GROUP: client ids of a group
	ReqConsumerIDsChanged     int32 = 40  // NOTIFY_CONSUMER_IDS_CHANGED: broker → client: rebalance now
	ReqLockBatch              int32 = 41  // LOCK_BATCH_MQ: lock queues for ordered consumption
	ReqUnlockBatch            int32 = 42  // UNLOCK_BATCH_MQ: release them
	ReqResetClientOffset      int32 = 220 // RESET_CONSUMER_CLIENT_OFFSET: broker → client: go to these offsets
	ReqGetConsumerStatus      int32 = 221 // GET_CONSUMER_STATUS_FROM_CLIENT: broker → client: your offsets
	ReqGetConsumerRunningInfo int32 = 307 // GET_CONSUMER_RUNNING_INFO: admin → broker → client
	ReqConsumeDirectly        int32 = 309 // CONSUME_MESSAGE_DIRECTLY: admin → broker → client: consume this one
)

// Requests: topics and groups.
const (
	ReqCreateTopic         int32 = 17  // UPDATE_AND_CREATE_TOPIC: create or change a topic
	ReqCreateTopicList     int32 = 18  // UPDATE_AND_CREATE_TOPIC_LIST: create or change topics
	ReqCreateStaticTopic   int32 = 513 // UPDATE_AND_CREATE_STATIC_TOPIC: logical queues
	ReqDeleteTopicInBroker int32 = 215 // DELETE_TOPIC_IN_BROKER: remove a topic
	ReqGetAllTopicConfig   int32 = 21  // GET_ALL_TOPIC_CONFIG: all topics with their data version
	ReqGetTopicConfig      int32 = 351 // GET_TOPIC_CONFIG: one topic
	ReqUpdateGroup         int32 = 200 // UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: create or change a consumer group
	ReqUpdateGroupList     int32 = 225 // UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: create or change groups
	ReqGetAllGroupConfig   int32 = 201 // GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all groups with their data version
	ReqGetGroupConfig      int32 = 352 // GET_SUBSCRIPTIONGROUP_CONFIG: one group
	ReqDeleteGroup         int32 = 207 // DELETE_SUBSCRIPTIONGROUP: remove a group
	ReqGroupForbidden      int32 = 353 // UPDATE_AND_GET_GROUP_FORBIDDEN: may a group read a topic
)

// Requests: broker state and statistics.
const (
	ReqUpdateBrokerConfig     int32 = 25  // UPDATE_BROKER_CONFIG: change settings
	ReqGetBrokerConfig        int32 = 26  // GET_BROKER_CONFIG: the settings as text
	ReqGetBrokerRuntimeInfo   int32 = 28  // GET_BROKER_RUNTIME_INFO: numbers for operators
	ReqGetTopicStats          int32 = 202 // GET_TOPIC_STATS_INFO: offsets of a topic's queues
	ReqGetConsumerConnections int32 = 203 // GET_CONSUMER_CONNECTION_LIST: clients of a consumer group
	ReqGetProducerConnections int32 = 204 // GET_PRODUCER_CONNECTION_LIST: clients of a producer group
	ReqGetConsumeStats        int32 = 208 // GET_CONSUME_STATS: progress of a group
	ReqResetOffset            int32 = 222 // INVOKE_BROKER_TO_RESET_OFFSET: move a group by time
	ReqQueryConsumerStatus    int32 = 223 // INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offsets as the clients hold them
	ReqTopicConsumeByWho      int32 = 300 // QUERY_TOPIC_CONSUME_BY_WHO: groups of a topic
	ReqConsumeTimeSpan        int32 = 303 // QUERY_CONSUME_TIME_SPAN: store times around a group's offsets
	ReqBrokerSystemTopics     int32 = 305 // GET_SYSTEM_TOPIC_LIST_FROM_BROKER: system topics
	ReqCleanExpiredQueue      int32 = 306 // CLEAN_EXPIRED_CONSUMEQUEUE: drop dead consume queues
	ReqQueryCorrectionOffset  int32 = 308 // QUERY_CORRECTION_OFFSET: offsets of other groups
	ReqCloneGroupOffset       int32 = 314 // CLONE_GROUP_OFFSET: copy offsets between groups
	ReqViewBrokerStats        int32 = 315 // VIEW_BROKER_STATS_DATA: one statistics item
	ReqCleanUnusedTopic       int32 = 316 // CLEAN_UNUSED_TOPIC: drop topics without config
	ReqBrokerConsumeStats     int32 = 317 // GET_BROKER_CONSUME_STATS: progress of all groups
	ReqAllProducerInfo        int32 = 328 // GET_ALL_PRODUCER_INFO: all producer clients
	ReqDeleteExpiredLog       int32 = 329 // DELETE_EXPIRED_COMMITLOG: run retention now
	ReqTopicsByConsumer       int32 = 343 // QUERY_TOPICS_BY_CONSUMER: topics of a group
	ReqSubscriptionByConsumer int32 = 345 // QUERY_SUBSCRIPTION_BY_CONSUMER: a group's subscription
	ReqGetAllConsumerOffset   int32 = 43  // GET_ALL_CONSUMER_OFFSET: slave → master: all committed offsets
	ReqGetAllDelayOffset      int32 = 45  // GET_ALL_DELAY_OFFSET: slave → master: delay queue offsets
	ReqGetTimerCheckpoint     int32 = 60  // GET_TIMER_CHECK_POINT: slave → master
	ReqGetTimerMetrics        int32 = 61  // GET_TIMER_METRICS: slave → master
	ReqExchangeHAInfo         int32 = 906 // EXCHANGE_BROKER_HA_INFO: broker ↔ broker: HA addresses
	ReqGetHAStatus            int32 = 907 // GET_BROKER_HA_STATUS: replication state of a broker
	ReqResetMasterFlushOffset int32 = 908 // RESET_MASTER_FLUSH_OFFSET: tell a slave the master's flushed offset
)

// Requests: name server.
const (
	ReqPutKV                int32 = 100 // PUT_KV_CONFIG: store a key
	ReqGetKV                int32 = 101 // GET_KV_CONFIG: read a key
	ReqDeleteKV             int32 = 102 // DELETE_KV_CONFIG: remove a key
	ReqRegisterBroker       int32 = 103 // REGISTER_BROKER: broker → name server: address, role id, topics
	ReqUnregisterBroker     int32 = 104 // UNREGISTER_BROKER: broker → name server: leaving
	ReqGetRoute             int32 = 105 // GET_ROUTEINFO_BY_TOPIC: brokers and queues of a topic
	ReqGetClusterInfo       int32 = 106 // GET_BROKER_CLUSTER_INFO: all brokers of all clusters
	ReqWipeWritePerm        int32 = 205 // WIPE_WRITE_PERM_OF_BROKER: take a broker out of writing
	ReqGetAllTopics         int32 = 206 // GET_ALL_TOPIC_LIST_FROM_NAMESERVER: names of all topics
	ReqDeleteTopicInNamesrv int32 = 216 // DELETE_TOPIC_IN_NAMESRV: forget a topic
	ReqRegisterTopic        int32 = 217 // REGISTER_TOPIC_IN_NAMESRV: add a topic's queues by hand
	ReqGetKVList            int32 = 219 // GET_KVLIST_BY_NAMESPACE: all keys of a namespace
	ReqTopicsByCluster      int32 = 224 // GET_TOPICS_BY_CLUSTER: topics of a cluster
	ReqNamesrvSystemTopics  int32 = 304 // GET_SYSTEM_TOPIC_LIST_FROM_NS: cluster and broker names
	ReqUnitTopics           int32 = 311 // GET_UNIT_TOPIC_LIST: topics with the unit flag
	ReqUnitSubTopics        int32 = 312 // GET_HAS_UNIT_SUB_TOPIC_LIST: topics with unit subscriptions
	ReqUnitSubNoUnitTopics  int32 = 313 // GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: unit subscriptions without the unit flag
	ReqUpdateNamesrvConfig  int32 = 318 // UPDATE_NAMESRV_CONFIG: change settings
	ReqGetNamesrvConfig     int32 = 319 // GET_NAMESRV_CONFIG: the settings as text
	ReqQueryDataVersion     int32 = 322 // QUERY_DATA_VERSION: has my topic table changed since
	ReqAddWritePerm         int32 = 327 // ADD_WRITE_PERM_OF_BROKER: undo a wipe
	ReqGetMemberGroup       int32 = 901 // GET_BROKER_MEMBER_GROUP: addresses of a broker group
	ReqBrokerHeartbeat      int32 = 904 // BROKER_HEARTBEAT: broker → name server and controller: alive
	ReqMinBrokerIDChanged   int32 = 905 // NOTIFY_MIN_BROKER_ID_CHANGE: name server → broker
)

// Requests: controller.
const (
	ReqAlterSyncStateSet      int32 = 1001 // CONTROLLER_ALTER_SYNC_STATE_SET: master → leader: new SyncStateSet
	ReqElectMaster            int32 = 1002 // CONTROLLER_ELECT_MASTER: broker or admin → leader: elect
	ReqRegisterToController   int32 = 1003 // CONTROLLER_REGISTER_BROKER: broker → leader: this id is at this address
	ReqGetReplicaInfo         int32 = 1004 // CONTROLLER_GET_REPLICA_INFO: who is master, which set
	ReqGetControllerMetadata  int32 = 1005 // CONTROLLER_GET_METADATA_INFO: who leads the controllers (any node)
	ReqGetSyncStateData       int32 = 1006 // CONTROLLER_GET_SYNC_STATE_DATA: sets of many groups
	ReqGetEpochCache          int32 = 1007 // GET_BROKER_EPOCH_CACHE: epoch list of a broker
	ReqRoleChanged            int32 = 1008 // NOTIFY_BROKER_ROLE_CHANGED: controller → broker, one-way
	ReqUpdateControllerConfig int32 = 1009 // UPDATE_CONTROLLER_CONFIG: change settings
	ReqGetControllerConfig    int32 = 1010 // GET_CONTROLLER_CONFIG: the settings as text
	ReqCleanBrokerData        int32 = 1011 // CLEAN_BROKER_DATA: forget members
	ReqGetNextBrokerID        int32 = 1012 // CONTROLLER_GET_NEXT_BROKER_ID: the id a new member may ask for
	ReqApplyBrokerID          int32 = 1013 // CONTROLLER_APPLY_BROKER_ID: take that id
)

// Requests: the controllers' registers, Lockstep's own (codes above 32767 exist in
// JSON headers only).
const (
	ReqReadRegister  int32 = 190001 // LOCKSTEP_READ_REGISTER: the value, behind a read barrier
	ReqWriteRegister int32 = 190002 // LOCKSTEP_WRITE_REGISTER: set the value
	ReqSwapRegister  int32 = 190003 // LOCKSTEP_SWAP_REGISTER: set the value if it is another one
)

// requestNames are RocketMQ's names of the request codes.
var requestNames = map[int32]string{
	ReqSendMessage:              "SEND_MESSAGE",
	ReqSendMessageV2:            "SEND_MESSAGE_V2",
	ReqSendBatch:                "SEND_BATCH_MESSAGE",
	ReqSendReply:                "SEND_REPLY_MESSAGE",
	ReqSendReplyV2:              "SEND_REPLY_MESSAGE_V2",
	ReqPushReply:                "PUSH_REPLY_MESSAGE_TO_CLIENT",
	ReqSendBack:                 "CONSUMER_SEND_MSG_BACK",
	ReqEndTransaction:           "END_TRANSACTION",
	ReqCheckTransaction:         "CHECK_TRANSACTION_STATE",
	ReqResumeCheckHalf:          "RESUME_CHECK_HALF_MESSAGE",
	ReqRecallMessage:            "RECALL_MESSAGE",
	ReqPull:                     "PULL_MESSAGE",
	ReqLitePull:                 "LITE_PULL_MESSAGE",
	ReqQueryMessage:             "QUERY_MESSAGE",
	ReqViewMessage:              "VIEW_MESSAGE_BY_ID",
	ReqSearchOffset:             "SEARCH_OFFSET_BY_TIMESTAMP",
	ReqGetMaxOffset:             "GET_MAX_OFFSET",
	ReqGetMinOffset:             "GET_MIN_OFFSET",
	ReqGetEarliestStoreTime:     "GET_EARLIEST_MSG_STORETIME",
	ReqQueryConsumeQueue:        "QUERY_CONSUME_QUEUE",
	ReqQueryConsumerOffset:      "QUERY_CONSUMER_OFFSET",
	ReqUpdateConsumerOffset:     "UPDATE_CONSUMER_OFFSET",
	ReqPop:                      "POP_MESSAGE",
	ReqAck:                      "ACK_MESSAGE",
	ReqBatchAck:                 "BATCH_ACK_MESSAGE",
	ReqPeek:                     "PEEK_MESSAGE",
	ReqChangeInvisible:          "CHANGE_MESSAGE_INVISIBLETIME",
	ReqNotification:             "NOTIFICATION",
	ReqPollingInfo:              "POLLING_INFO",
	ReqQueryAssignment:          "QUERY_ASSIGNMENT",
	ReqSetMessageRequestMode:    "SET_MESSAGE_REQUEST_MODE",
	ReqGetAllMessageRequestMode: "GET_ALL_MESSAGE_REQUEST_MODE",
	ReqHeartbeat:                "HEART_BEAT",
	ReqUnregisterClient:         "UNREGISTER_CLIENT",
	ReqCheckClientConfig:        "CHECK_CLIENT_CONFIG",
	ReqGetConsumerList:          "GET_CONSUMER_LIST_BY_GROUP",
	ReqConsumerIDsChanged:       "NOTIFY_CONSUMER_IDS_CHANGED",
	ReqLockBatch:                "LOCK_BATCH_MQ",
	ReqUnlockBatch:              "UNLOCK_BATCH_MQ",
	ReqResetClientOffset:        "RESET_CONSUMER_CLIENT_OFFSET",
	ReqGetConsumerStatus:        "GET_CONSUMER_STATUS_FROM_CLIENT",
	ReqGetConsumerRunningInfo:   "GET_CONSUMER_RUNNING_INFO",
	ReqConsumeDirectly:          "CONSUME_MESSAGE_DIRECTLY",
	ReqCreateTopic:              "UPDATE_AND_CREATE_TOPIC",
	ReqCreateTopicList:          "UPDATE_AND_CREATE_TOPIC_LIST",
	ReqCreateStaticTopic:        "UPDATE_AND_CREATE_STATIC_TOPIC",
	ReqDeleteTopicInBroker:      "DELETE_TOPIC_IN_BROKER",
	ReqGetAllTopicConfig:        "GET_ALL_TOPIC_CONFIG",
	ReqGetTopicConfig:           "GET_TOPIC_CONFIG",
	ReqUpdateGroup:              "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
	ReqUpdateGroupList:          "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
	ReqGetAllGroupConfig:        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
	ReqGetGroupConfig:           "GET_SUBSCRIPTIONGROUP_CONFIG",
	ReqDeleteGroup:              "DELETE_SUBSCRIPTIONGROUP",
	ReqGroupForbidden:           "UPDATE_AND_GET_GROUP_FORBIDDEN",
	ReqUpdateBrokerConfig:       "UPDATE_BROKER_CONFIG",
	ReqGetBrokerConfig:          "GET_BROKER_CONFIG",
	ReqGetBrokerRuntimeInfo:     "GET_BROKER_RUNTIME_INFO",
	ReqGetTopicStats:            "GET_TOPIC_STATS_INFO",
	ReqGetConsumerConnections:   "GET_CONSUMER_CONNECTION_LIST",
	ReqGetProducerConnections:   "GET_PRODUCER_CONNECTION_LIST",
	ReqGetConsumeStats:          "GET_CONSUME_STATS",
	ReqResetOffset:              "INVOKE_BROKER_TO_RESET_OFFSET",
	ReqQueryConsumerStatus:      "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
	ReqTopicConsumeByWho:        "QUERY_TOPIC_CONSUME_BY_WHO",
	ReqConsumeTimeSpan:          "QUERY_CONSUME_TIME_SPAN",
	ReqBrokerSystemTopics:       "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
	ReqCleanExpiredQueue:        "CLEAN_EXPIRED_CONSUMEQUEUE",
	ReqQueryCorrectionOffset:    "QUERY_CORRECTION_OFFSET",
	ReqCloneGroupOffset:         "CLONE_GROUP_OFFSET",
	ReqViewBrokerStats:          "VIEW_BROKER_STATS_DATA",
	ReqCleanUnusedTopic:         "CLEAN_UNUSED_TOPIC",
	ReqBrokerConsumeStats:       "GET_BROKER_CONSUME_STATS",
	ReqAllProducerInfo:          "GET_ALL_PRODUCER_INFO",
	ReqDeleteExpiredLog:         "DELETE_EXPIRED_COMMITLOG",
	ReqTopicsByConsumer:         "QUERY_TOPICS_BY_CONSUMER",
	ReqSubscriptionByConsumer:   "QUERY_SUBSCRIPTION_BY_CONSUMER",
	ReqGetAllConsumerOffset:     "GET_ALL_CONSUMER_OFFSET",
	ReqGetAllDelayOffset:        "GET_ALL_DELAY_OFFSET",
	ReqGetTimerCheckpoint:       "GET_TIMER_CHECK_POINT",
	ReqGetTimerMetrics:          "GET_TIMER_METRICS",
	ReqExchangeHAInfo:           "EXCHANGE_BROKER_HA_INFO",
	ReqGetHAStatus:              "GET_BROKER_HA_STATUS",
	ReqResetMasterFlushOffset:   "RESET_MASTER_FLUSH_OFFSET",
	ReqPutKV:                    "PUT_KV_CONFIG",
	ReqGetKV:                    "GET_KV_CONFIG",
	ReqDeleteKV:                 "DELETE_KV_CONFIG",
	ReqRegisterBroker:           "REGISTER_BROKER",
	ReqUnregisterBroker:         "UNREGISTER_BROKER",
	ReqGetRoute:                 "GET_ROUTEINFO_BY_TOPIC",
	ReqGetClusterInfo:           "GET_BROKER_CLUSTER_INFO",
	ReqWipeWritePerm:            "WIPE_WRITE_PERM_OF_BROKER",
	ReqGetAllTopics:             "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
	ReqDeleteTopicInNamesrv:     "DELETE_TOPIC_IN_NAMESRV",
	ReqRegisterTopic:            "REGISTER_TOPIC_IN_NAMESRV",
	ReqGetKVList:                "GET_KVLIST_BY_NAMESPACE",
	ReqTopicsByCluster:          "GET_TOPICS_BY_CLUSTER",
	ReqNamesrvSystemTopics:      "GET_SYSTEM_TOPIC_LIST_FROM_NS",
	ReqUnitTopics:               "GET_UNIT_TOPIC_LIST",
	ReqUnitSubTopics:            "GET_HAS_UNIT_SUB_TOPIC_LIST",
	ReqUnitSubNoUnitTopics:      "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
	ReqUpdateNamesrvConfig:      "UPDATE_NAMESRV_CONFIG",
	ReqGetNamesrvConfig:         "GET_NAMESRV_CONFIG",
	ReqQueryDataVersion:         "QUERY_DATA_VERSION",
	ReqAddWritePerm:             "ADD_WRITE_PERM_OF_BROKER",
	ReqGetMemberGroup:           "GET_BROKER_MEMBER_GROUP",
	ReqBrokerHeartbeat:          "BROKER_HEARTBEAT",
	ReqMinBrokerIDChanged:       "NOTIFY_MIN_BROKER_ID_CHANGE",
	ReqAlterSyncStateSet:        "CONTROLLER_ALTER_SYNC_STATE_SET",
	ReqElectMaster:              "CONTROLLER_ELECT_MASTER",
	ReqRegisterToController:     "CONTROLLER_REGISTER_BROKER",
	ReqGetReplicaInfo:           "CONTROLLER_GET_REPLICA_INFO",
	ReqGetControllerMetadata:    "CONTROLLER_GET_METADATA_INFO",
	ReqGetSyncStateData:         "CONTROLLER_GET_SYNC_STATE_DATA",
	ReqGetEpochCache:            "GET_BROKER_EPOCH_CACHE",
	ReqRoleChanged:              "NOTIFY_BROKER_ROLE_CHANGED",
	ReqUpdateControllerConfig:   "UPDATE_CONTROLLER_CONFIG",
	ReqGetControllerConfig:      "GET_CONTROLLER_CONFIG",
	ReqCleanBrokerData:          "CLEAN_BROKER_DATA",
	ReqGetNextBrokerID:          "CONTROLLER_GET_NEXT_BROKER_ID",
	ReqApplyBrokerID:            "CONTROLLER_APPLY_BROKER_ID",
	ReqReadRegister:             "LOCKSTEP_READ_REGISTER",
	ReqWriteRegister:            "LOCKSTEP_WRITE_REGISTER",
	ReqSwapRegister:             "LOCKSTEP_SWAP_REGISTER",
}

// RequestName is RocketMQ's name of a request code, or the number as text.
func RequestName(code int32) string {
	if name, ok := requestNames[code]; ok {
		return name
	}
	return strconv.Itoa(int(code))
}
