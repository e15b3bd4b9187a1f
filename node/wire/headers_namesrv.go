package wire

import "lockstep/internal/ha"

// Headers between name servers and the rest (wire contracts 2.6).

// RouteRequest is the header of code 105.
type RouteRequest struct {
	Topic                  string `ext:"topic,required"`
	AcceptStandardJSONOnly bool   `ext:"acceptStandardJsonOnly"`
}

// RegisterBrokerRequest is the header of code 103.
type RegisterBrokerRequest struct {
	BrokerName             string   `ext:"brokerName,required"`
	BrokerAddr             string   `ext:"brokerAddr,required"`
	ClusterName            string   `ext:"clusterName,required"`
	HAServerAddr           string   `ext:"haServerAddr,required"`
	BrokerID               int64    `ext:"brokerId,required"` // role id: 0 is the master
	HeartbeatTimeoutMillis int64    `ext:"heartbeatTimeoutMillis"`
	EnableActingMaster     Tristate `ext:"enableActingMaster"` // unknown: an old broker
	Compressed             bool     `ext:"compressed"`
	BodyCRC32              int32    `ext:"bodyCrc32"` // 0: do not check; else CRC-32 (IEEE) of the body & 0x7fffffff
	Identity
	// MasterEpoch fences: a registration as role 0 of a lower epoch loses.
	MasterEpoch ha.MasterEpoch `ext:"lsEpoch"`
	// ControllerID is the broker's id at the controller, whatever its role id.
	ControllerID ha.BrokerID `ext:"lsBrokerId"`
}

// RegisterBrokerResponse answers 103; both are "" for a master.
type RegisterBrokerResponse struct {
	HAServerAddr string `ext:"haServerAddr"`
	MasterAddr   string `ext:"masterAddr"`
}

// UnregisterBrokerRequest is the header of code 104.
type UnregisterBrokerRequest struct {
	BrokerName  string `ext:"brokerName,required"`
	BrokerAddr  string `ext:"brokerAddr,required"`
	ClusterName string `ext:"clusterName,required"`
	BrokerID    int64  `ext:"brokerId,required"` // role id
	Identity
	MasterEpoch ha.MasterEpoch `ext:"lsEpoch"`
}

// DataVersionRequest is the header of code 322; the body is a DataVersion.
type DataVersionRequest struct {
	BrokerName  string `ext:"brokerName,required"`
	BrokerAddr  string `ext:"brokerAddr,required"`
	ClusterName string `ext:"clusterName,required"`
	BrokerID    int64  `ext:"brokerId,required"` // role id
	Identity
	MasterEpoch ha.MasterEpoch `ext:"lsEpoch"`
}

// DataVersionResponse answers 322; the body is the name server's DataVersion.
type DataVersionResponse struct {
	Changed bool `ext:"changed,always"`
}

// DeleteTopicInNamesrvRequest is the header of code 216.
type DeleteTopicInNamesrvRequest struct {
	Topic       string `ext:"topic,required"`
	ClusterName string `ext:"clusterName"` // "": every cluster
}

// MemberGroupRequest is the header of code 901.
type MemberGroupRequest struct {
	ClusterName string `ext:"clusterName,required"`
	BrokerName  string `ext:"brokerName,required"`
}

// MinBrokerIDChanged is the header of code 905, one-way.
type MinBrokerIDChanged struct {
	MinBrokerID       int64  `ext:"minBrokerId,always"` // role id
	BrokerName        string `ext:"brokerName"`
	MinBrokerAddr     string `ext:"minBrokerAddr"`
	OfflineBrokerAddr string `ext:"offlineBrokerAddr"`
	HABrokerAddr      string `ext:"haBrokerAddr"`
}

// KVRequest is the header of codes 100, 101, 102 and 219 (which use Namespace
// and, except 219, Key; 100 also Value).
type KVRequest struct {
	Namespace string `ext:"namespace,required"`
	Key       string `ext:"key"`
	Value     string `ext:"value"`
}

// KVResponse answers 101.
type KVResponse struct {
	Value string `ext:"value"`
}

// ExchangeHAInfo is the header of code 906 and of its answer.
type ExchangeHAInfo struct {
	MasterHAAddress   string       `ext:"masterHaAddress"`
	MasterFlushOffset ha.LogOffset `ext:"masterFlushOffset"`
	MasterAddress     string       `ext:"masterAddress"`
}
