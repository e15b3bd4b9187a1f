package wire

import "strconv"

// Response codes (wire contracts section 3). In-sync replicas missing at
// admission has no number of its own: it is CodeSystemError with
// RemarkNotEnoughReplicas.
const (
	CodeSuccess                 int32 = 0    // SUCCESS: done
	CodeSystemError             int32 = 1    // SYSTEM_ERROR: anything unexpected; also in-sync replicas not enough
	CodeSystemBusy              int32 = 2    // SYSTEM_BUSY: flow control; nothing was done
	CodeRequestCodeNotSupported int32 = 3    // REQUEST_CODE_NOT_SUPPORTED: no handler
	CodeTransactionFailed       int32 = 4    // TRANSACTION_FAILED: historic
	CodeFlushDiskTimeout        int32 = 10   // FLUSH_DISK_TIMEOUT: stored, local durability unknown
	CodeSlaveNotAvailable       int32 = 11   // SLAVE_NOT_AVAILABLE: stored, no slave near enough; also "this is a slave"
	CodeFlushSlaveTimeout       int32 = 12   // FLUSH_SLAVE_TIMEOUT: stored, replication unknown
	CodeMessageIllegal          int32 = 13   // MESSAGE_ILLEGAL: the message breaks a limit
	CodeServiceNotAvailable     int32 = 14   // SERVICE_NOT_AVAILABLE: not a writable master, disk full, shutting down
	CodeVersionNotSupported     int32 = 15   // VERSION_NOT_SUPPORTED: unused by servers
	CodeNoPermission            int32 = 16   // NO_PERMISSION: permissions, protected settings
	CodeTopicNotExist           int32 = 17   // TOPIC_NOT_EXIST: topic or route unknown
	CodeTopicExistAlready       int32 = 18   // TOPIC_EXIST_ALREADY: unused
	CodePullNotFound            int32 = 19   // PULL_NOT_FOUND: nothing at the offset yet; may be held
	CodePullRetryImmediately    int32 = 20   // PULL_RETRY_IMMEDIATELY: nothing matched; go on at nextBeginOffset
	CodePullOffsetMoved         int32 = 21   // PULL_OFFSET_MOVED: the offset is outside the queue
	CodeQueryNotFound           int32 = 22   // QUERY_NOT_FOUND: no such offset, key or message
	CodeSubscriptionParseFailed int32 = 23   // SUBSCRIPTION_PARSE_FAILED: the expression does not parse
	CodeSubscriptionNotExist    int32 = 24   // SUBSCRIPTION_NOT_EXIST: no heartbeat for the group yet
	CodeSubscriptionNotLatest   int32 = 25   // SUBSCRIPTION_NOT_LATEST: the broker's subscription is older
	CodeGroupNotExist           int32 = 26   // SUBSCRIPTION_GROUP_NOT_EXIST: group unknown
	CodeFilterDataNotExist      int32 = 27   // FILTER_DATA_NOT_EXIST: SQL92 filter data missing
	CodeFilterDataNotLatest     int32 = 28   // FILTER_DATA_NOT_LATEST: SQL92 filter data older
	CodeInvalidParameter        int32 = 29   // INVALID_PARAMETER: names, queue ids
	CodeNoBuyerID               int32 = 204  // NO_BUYER_ID: historic
	CodeNotInCurrentUnit        int32 = 205  // NOT_IN_CURRENT_UNIT: historic
	CodeConsumerNotOnline       int32 = 206  // CONSUMER_NOT_ONLINE: no client of the group is connected
	CodeConsumeMsgTimeout       int32 = 207  // CONSUME_MSG_TIMEOUT: the client did not answer
	CodeNoMessage               int32 = 208  // NO_MESSAGE: ack of an offset outside the queue
	CodePollingFull             int32 = 209  // POLLING_FULL: too many parked polls
	CodePollingTimeout          int32 = 210  // POLLING_TIMEOUT: nothing arrived in time
	CodeBrokerNotExist          int32 = 211  // BROKER_NOT_EXIST: admin client
	CodeDispatchNotComplete     int32 = 212  // BROKER_DISPATCH_NOT_COMPLETE: static topic admin
	CodeBroadcastConsumption    int32 = 213  // BROADCAST_CONSUMPTION: admin client
	CodeFlowControl             int32 = 215  // FLOW_CONTROL: proxies
	CodeNotLeaderForQueue       int32 = 501  // NOT_LEADER_FOR_QUEUE: static topics
	CodeIllegalOperation        int32 = 604  // ILLEGAL_OPERATION: transactions, recall
	CodeGoAway                  int32 = 1500 // GO_AWAY: the server is shutting down; reconnect
	CodeFencedMasterEpoch       int32 = 2000 // CONTROLLER_FENCED_MASTER_EPOCH: alter: not the stored master epoch
	CodeFencedSetEpoch          int32 = 2001 // CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: alter: not the stored set epoch
	CodeInvalidMaster           int32 = 2002 // CONTROLLER_INVALID_MASTER: alter: the sender is not the master
	CodeInvalidReplicas         int32 = 2003 // CONTROLLER_INVALID_REPLICAS: alter: a member is unknown
	CodeMasterNotAvailable      int32 = 2004 // CONTROLLER_MASTER_NOT_AVAILABLE: elect: nobody is electable
	CodeInvalidRequest          int32 = 2005 // CONTROLLER_INVALID_REQUEST: a field is missing or impossible
	CodeBrokerNotAlive          int32 = 2006 // CONTROLLER_BROKER_NOT_ALIVE: alter: a member is not alive
	CodeNotLeader               int32 = 2007 // CONTROLLER_NOT_LEADER: ask the leader
	CodeBrokerMetadataNotExist  int32 = 2008 // CONTROLLER_BROKER_METADATA_NOT_EXIST: the group is unknown
	CodeInvalidCleanBrokerData  int32 = 2009 // CONTROLLER_INVALID_CLEAN_BROKER_METADATA: clean refused
	CodeBrokerNeedsRegister     int32 = 2010 // CONTROLLER_BROKER_NEED_TO_BE_REGISTERED: register first
	CodeMasterStillExist        int32 = 2011 // CONTROLLER_MASTER_STILL_EXIST: the master stays; the header says who
	CodeElectMasterFailed       int32 = 2012 // CONTROLLER_ELECT_MASTER_FAILED: elect by a broker or admin found nobody
	CodeAlterSetFailed          int32 = 2013 // CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: nothing to change, or the master is missing
	CodeBrokerIDInvalid         int32 = 2014 // CONTROLLER_BROKER_ID_INVALID: the id is taken
	CodeJRaftInternalError      int32 = 2015 // CONTROLLER_JRAFT_INTERNAL_ERROR: Java controllers only
	CodeLiveInfoNotExist        int32 = 2016 // CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS: Java controllers only
	CodeUserNotExist            int32 = 3001 // USER_NOT_EXIST: access control admin
	CodePolicyNotExist          int32 = 3002 // POLICY_NOT_EXIST: access control admin

	// Lockstep's own, of the controllers' registers.
	CodeRegisterNotExist int32 = 19001 // LOCKSTEP_REGISTER_NOT_EXIST: never written
	CodeRegisterDiffers  int32 = 19002 // LOCKSTEP_REGISTER_DIFFERS: swap: it has another value
	CodeRegistersFull    int32 = 19003 // LOCKSTEP_REGISTERS_FULL: no room for another register; nothing was done
)

// RemarkNotEnoughReplicas is the remark that goes with CodeSystemError when a
// send was refused before it was stored.
const RemarkNotEnoughReplicas = "in-sync replicas not enough"

// responseNames are RocketMQ's names of the response codes.
var responseNames = map[int32]string{
	CodeSuccess:                 "SUCCESS",
	CodeSystemError:             "SYSTEM_ERROR",
	CodeSystemBusy:              "SYSTEM_BUSY",
	CodeRequestCodeNotSupported: "REQUEST_CODE_NOT_SUPPORTED",
	CodeTransactionFailed:       "TRANSACTION_FAILED",
	CodeFlushDiskTimeout:        "FLUSH_DISK_TIMEOUT",
	CodeSlaveNotAvailable:       "SLAVE_NOT_AVAILABLE",
	CodeFlushSlaveTimeout:       "FLUSH_SLAVE_TIMEOUT",
	CodeMessageIllegal:          "MESSAGE_ILLEGAL",
	CodeServiceNotAvailable:     "SERVICE_NOT_AVAILABLE",
	CodeVersionNotSupported:     "VERSION_NOT_SUPPORTED",
	CodeNoPermission:            "NO_PERMISSION",
	CodeTopicNotExist:           "TOPIC_NOT_EXIST",
	CodeTopicExistAlready:       "TOPIC_EXIST_ALREADY",
	CodePullNotFound:            "PULL_NOT_FOUND",
	CodePullRetryImmediately:    "PULL_RETRY_IMMEDIATELY",
	CodePullOffsetMoved:         "PULL_OFFSET_MOVED",
	CodeQueryNotFound:           "QUERY_NOT_FOUND",
	CodeSubscriptionParseFailed: "SUBSCRIPTION_PARSE_FAILED",
	CodeSubscriptionNotExist:    "SUBSCRIPTION_NOT_EXIST",
	CodeSubscriptionNotLatest:   "SUBSCRIPTION_NOT_LATEST",
	CodeGroupNotExist:           "SUBSCRIPTION_GROUP_NOT_EXIST",
	CodeFilterDataNotExist:      "FILTER_DATA_NOT_EXIST",
	CodeFilterDataNotLatest:     "FILTER_DATA_NOT_LATEST",
	CodeInvalidParameter:        "INVALID_PARAMETER",
	CodeNoBuyerID:               "NO_BUYER_ID",
	CodeNotInCurrentUnit:        "NOT_IN_CURRENT_UNIT",
	CodeConsumerNotOnline:       "CONSUMER_NOT_ONLINE",
	CodeConsumeMsgTimeout:       "CONSUME_MSG_TIMEOUT",
	CodeNoMessage:               "NO_MESSAGE",
	CodePollingFull:             "POLLING_FULL",
	CodePollingTimeout:          "POLLING_TIMEOUT",
	CodeBrokerNotExist:          "BROKER_NOT_EXIST",
	CodeDispatchNotComplete:     "BROKER_DISPATCH_NOT_COMPLETE",
	CodeBroadcastConsumption:    "BROADCAST_CONSUMPTION",
	CodeFlowControl:             "FLOW_CONTROL",
	CodeNotLeaderForQueue:       "NOT_LEADER_FOR_QUEUE",
	CodeIllegalOperation:        "ILLEGAL_OPERATION",
	CodeGoAway:                  "GO_AWAY",
	CodeFencedMasterEpoch:       "CONTROLLER_FENCED_MASTER_EPOCH",
	CodeFencedSetEpoch:          "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH",
	CodeInvalidMaster:           "CONTROLLER_INVALID_MASTER",
	CodeInvalidReplicas:         "CONTROLLER_INVALID_REPLICAS",
	CodeMasterNotAvailable:      "CONTROLLER_MASTER_NOT_AVAILABLE",
	CodeInvalidRequest:          "CONTROLLER_INVALID_REQUEST",
	CodeBrokerNotAlive:          "CONTROLLER_BROKER_NOT_ALIVE",
	CodeNotLeader:               "CONTROLLER_NOT_LEADER",
	CodeBrokerMetadataNotExist:  "CONTROLLER_BROKER_METADATA_NOT_EXIST",
	CodeInvalidCleanBrokerData:  "CONTROLLER_INVALID_CLEAN_BROKER_METADATA",
	CodeBrokerNeedsRegister:     "CONTROLLER_BROKER_NEED_TO_BE_REGISTERED",
	CodeMasterStillExist:        "CONTROLLER_MASTER_STILL_EXIST",
	CodeElectMasterFailed:       "CONTROLLER_ELECT_MASTER_FAILED",
	CodeAlterSetFailed:          "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED",
	CodeBrokerIDInvalid:         "CONTROLLER_BROKER_ID_INVALID",
	CodeJRaftInternalError:      "CONTROLLER_JRAFT_INTERNAL_ERROR",
	CodeLiveInfoNotExist:        "CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS",
	CodeUserNotExist:            "USER_NOT_EXIST",
	CodePolicyNotExist:          "POLICY_NOT_EXIST",
	CodeRegisterNotExist:        "LOCKSTEP_REGISTER_NOT_EXIST",
	CodeRegisterDiffers:         "LOCKSTEP_REGISTER_DIFFERS",
	CodeRegistersFull:           "LOCKSTEP_REGISTERS_FULL",
}

// ResponseName is RocketMQ's name of a response code, or the number as text.
func ResponseName(code int32) string {
	if name, ok := responseNames[code]; ok {
		return name
	}
	return strconv.Itoa(int(code))
}
