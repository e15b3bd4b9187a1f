package wire

import "lockstep/internal/ha"

// Bodies of high availability (HA contracts 1.4).

// SyncStateSetBody is the body of codes 1001, 1003, 1004 and 1008. In an alter
// request the epoch is the one the master holds; in answers, the committed one.
type SyncStateSetBody struct {
	SyncStateSet      ha.IDs      `json:"syncStateSet"`
	SyncStateSetEpoch ha.SetEpoch `json:"syncStateSetEpoch"`
}

// ElectMasterBody is the body of the answer to 1002; the group is present only on
// success.
type ElectMasterBody struct {
	Group        *BrokerMemberGroup `json:"brokerMemberGroup,omitempty"`
	SyncStateSet ha.IDs             `json:"syncStateSet"`
}

// SyncStateData is the body of the answer to 1006, by broker name; its request
// is a JSON array of broker names ([]string).
type SyncStateData struct {
	ReplicasInfoTable map[string]ReplicasInfo `json:"replicasInfoTable"`
}

// ReplicasInfo is the state of one broker group.
type ReplicasInfo struct {
	MasterBrokerID    ha.BrokerID    `json:"masterBrokerId"`
	MasterAddress     string         `json:"masterAddress"`
	MasterEpoch       ha.MasterEpoch `json:"masterEpoch"`
	SyncStateSetEpoch ha.SetEpoch    `json:"syncStateSetEpoch"`
	InSync            []ReplicaState `json:"inSyncReplicas"`
	NotInSync         []ReplicaState `json:"notInSyncReplicas"`
}

// ReplicaState is one member in ReplicasInfo.
type ReplicaState struct {
	BrokerName    string      `json:"brokerName"`
	BrokerID      ha.BrokerID `json:"brokerId"`
	BrokerAddress string      `json:"brokerAddress"`
	Alive         bool        `json:"alive"`
}

// HARuntimeInfo is the body of code 907.
type HARuntimeInfo struct {
	Master                   bool               `json:"master"`
	MasterCommitLogMaxOffset ha.LogOffset       `json:"masterCommitLogMaxOffset"`
	InSyncSlaveNums          int32              `json:"inSyncSlaveNums"` // controller mode: size of the set less one
	Connections              []HAConnectionInfo `json:"haConnectionInfo"`
	Client                   HAClientInfo       `json:"haClientRuntimeInfo"`
}

// HAConnectionInfo is one slave as its master sees it.
type HAConnectionInfo struct {
	Addr                    string       `json:"addr"`
	SlaveAckOffset          ha.LogOffset `json:"slaveAckOffset"`
	Diff                    int64        `json:"diff"` // bytes behind the master's end
	InSync                  bool         `json:"inSync"`
	TransferredByteInSecond int64        `json:"transferredByteInSecond"`
	TransferFromWhere       ha.LogOffset `json:"transferFromWhere"`
}

// HAClientInfo is a slave's own view.
type HAClientInfo struct {
	MasterAddr              string       `json:"masterAddr"`
	TransferredByteInSecond int64        `json:"transferredByteInSecond"`
	MaxOffset               ha.LogOffset `json:"maxOffset"`
	LastReadTimestamp       int64        `json:"lastReadTimestamp"` // milliseconds since 1970
	LastWriteTimestamp      int64        `json:"lastWriteTimestamp"`
	MasterFlushOffset       ha.LogOffset `json:"masterFlushOffset"`
	Activated               bool         `json:"activated"`
}

// EpochCache is the body of code 1007.
type EpochCache struct {
	BrokerID    ha.BrokerID  `json:"brokerId"`
	BrokerName  string       `json:"brokerName"`
	ClusterName string       `json:"clusterName"`
	EpochList   []EpochEntry `json:"epochList"`
	MaxOffset   ha.LogOffset `json:"maxOffset"`
}

// EpochEntry is one epoch; the open one's end is OpenEpochEnd.
type EpochEntry struct {
	Epoch       ha.MasterEpoch `json:"epoch"`
	StartOffset ha.LogOffset   `json:"startOffset"`
	EndOffset   ha.LogOffset   `json:"endOffset"`
}

// OpenEpochEnd is the end Java prints for the epoch still being written.
const OpenEpochEnd ha.LogOffset = 1<<63 - 1

// NewEpochCache lists epochs the way code 1007 does.
func NewEpochCache(epochs ha.Epochs, end ha.LogOffset) EpochCache {
	c := EpochCache{EpochList: make([]EpochEntry, len(epochs)), MaxOffset: end}
	for i, e := range epochs {
		stop := OpenEpochEnd
		if i+1 < len(epochs) {
			stop = epochs[i+1].Start
		}
		c.EpochList[i] = EpochEntry{e.Epoch, e.Start, stop}
	}
	return c
}
