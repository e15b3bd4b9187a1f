package wire

import "lockstep/internal/ha"

// Headers between brokers and controllers (HA contracts section 1). Fields whose
// names begin with "ls" are Lockstep's own; Java peers ignore them and never
// send them, so their absence always reads as "unknown".

// Identity says which life of which store speaks (rules P1, P2). The broker id
// stands in the header it is embedded in.
type Identity struct {
	Store ha.StoreID `ext:"lsStore"`
	Boot  ha.Boot    `ext:"lsBoot"`
	Nonce uint64     `ext:"lsNonce"` // drawn at each start: tells clones of one boot apart (P18)
}

// Known reports whether the peer gave an identity (Java does not).
func (i Identity) Known() bool { return i.Store != "" }

// Of returns the incarnation of broker id with this identity.
func (i Identity) Of(id ha.BrokerID) ha.Incarnation {
	return ha.Incarnation{Broker: id, Store: i.Store, Boot: i.Boot}
}

// ReplicaReport is what a broker says about its own log in registrations and
// heartbeats (rules P1, P4, P16, P17).
type ReplicaReport struct {
	Identity
	Claim         ha.Claim       `ext:"lsClaim"`     // do I still hold all I acknowledged
	Ready         Readiness      `ext:"lsReady"`     // may this store be promoted
	LastEpoch     ha.MasterEpoch `ext:"lsLastEpoch"` // epoch of the last whole record
	Durable       ha.LogOffset   `ext:"lsDurable"`   // durable end
	HighestEpoch  ha.MasterEpoch `ext:"lsHighest"`   // highest epoch ever seen: new epochs must exceed it
	MinInSync     int32          `ext:"lsMinInSync"` // configured minInSyncReplicas
	TotalReplicas int32          `ext:"lsReplicas"`  // configured size of the group
	Class         ha.AckClass    `ext:"lsClass"`     // class of the acknowledgements it can give
	Learner       bool           `ext:"lsLearner"`   // never to be elected or counted
	HAAddress     string         `ext:"lsHaAddr"`    // host:port of its replication listener
}

// MasterView is what the controller adds to every answer and notice that names a
// master, so that authority is exact: (id, boot, epoch) (rule P4).
type MasterView struct {
	Store     ha.StoreID   `ext:"lsMasterStore"`
	Boot      ha.Boot      `ext:"lsMasterBoot"`
	HAAddress string       `ext:"lsMasterHaAddr"`
	MinInSync int32        `ext:"lsMinInSync"` // committed minInSyncReplicas of the group
	Floor     ha.LogOffset `ext:"lsFloor"`     // confirm offset at the last alter
	Unclean   bool         `ext:"lsUnclean"`   // elected outside the electable members
	Members   Members      `ext:"lsMembers"`   // registered incarnation of every member of the group
	Retained  ha.IDs       `ext:"lsRetained"`  // still electable though outside the set (rule P6)
	Term      uint64       `ext:"lsTerm"`      // controller term that answered
}

// BrokerHeartbeat is the header of code 904, to controllers and name servers.
// One-way from Java; between Lockstep nodes it is answered with HeartbeatResponse.
type BrokerHeartbeat struct {
	ClusterName            string         `ext:"clusterName,required"`
	BrokerAddr             string         `ext:"brokerAddr,required"`
	BrokerName             string         `ext:"brokerName,required"`
	BrokerID               ha.BrokerID    `ext:"brokerId"`
	Epoch                  ha.MasterEpoch `ext:"epoch"` // epoch of the role it plays
	MaxOffset              ha.LogOffset   `ext:"maxOffset"`
	ConfirmOffset          ha.LogOffset   `ext:"confirmOffset"`
	HeartbeatTimeoutMillis int64          `ext:"heartbeatTimeoutMills"` // spelt so in the contract
	ElectionPriority       int32          `ext:"electionPriority"`
	ReplicaReport
	// LeaseWanted asks for a lease for the authority (BrokerID, Epoch).
	LeaseWanted bool `ext:"lsLeaseWanted"`
	// LeaseGeneration is the newest grant installed, for the controller's log.
	LeaseGeneration uint64 `ext:"lsLeaseGeneration"`
	// Fenced is the epoch whose authority this broker has given up for good: it
	// acknowledges nothing more in it, so an election need not wait (P12).
	Fenced ha.MasterEpoch `ext:"lsFenced"`
	// HandOver: the master is stopping and asks for a successor (P20).
	HandOver bool `ext:"lsHandOver"`
	// Sequence numbers the heartbeats of one boot; the answer echoes it.
	Sequence uint64 `ext:"lsSequence"`
	// Echo is the Stamp of the newest answer received on this session, 0 before the
	// first: the controller thereby knows that this heartbeat was sent after it gave
	// that answer, and so when the reported durable end was true (P12).
	Echo uint64 `ext:"lsEcho"`
}

// HeartbeatResponse answers 904. A grant is present when Lease.Granted.
type HeartbeatResponse struct {
	LeaseGrant
	Sequence uint64 `ext:"lsSequence"`
	Term     uint64 `ext:"lsTerm"` // controller term that answered
	// Stamp comes back as Echo in the next heartbeat of the session.
	Stamp uint64 `ext:"lsStamp"`
}

// LeaseGrant lets the authority (Broker, Boot, Epoch) write for Duration minus
// Margin, counted by the receiver from the moment it sent the heartbeat that is
// answered. It holds no wall clock (HA contracts 6.7).
type LeaseGrant struct {
	Broker         ha.BrokerID    `ext:"lsLeaseBroker"`
	Boot           ha.Boot        `ext:"lsLeaseBoot"`
	Epoch          ha.MasterEpoch `ext:"lsLeaseEpoch"`
	Generation     uint64         `ext:"lsLeaseGeneration"` // orders grants of one authority
	DurationMillis int64          `ext:"lsLeaseMillis"`
	MarginMillis   int64          `ext:"lsLeaseMarginMillis"`
}

// Granted reports whether a grant is present.
func (g LeaseGrant) Granted() bool { return g.Epoch > 0 && g.DurationMillis > 0 }

// AlterSyncStateSetRequest is the header of code 1001; the body is a
// SyncStateSetBody with the set epoch the master holds.
type AlterSyncStateSetRequest struct {
	BrokerName     string         `ext:"brokerName,required"`
	MasterBrokerID ha.BrokerID    `ext:"masterBrokerId,required"`
	MasterEpoch    ha.MasterEpoch `ext:"masterEpoch,required"`
	InvokeTime     int64          `ext:"invokeTime"`
	Identity                      // the master's own
	Members        Members        `ext:"lsMembers"`   // incarnation of each proposed member (P2)
	Floor          ha.LogOffset   `ext:"lsFloor"`     // the master's confirm offset
	MinInSync      int32          `ext:"lsMinInSync"` // the master's minInSyncReplicas
	ClusterName    string         `ext:"lsCluster"`
}

// AlterSyncStateSetResponse answers 1001; the body is the set as committed.
type AlterSyncStateSetResponse struct {
	NewSyncStateSetEpoch ha.SetEpoch `ext:"newSyncStateSetEpoch,always"`
	MasterView
}

// ElectMasterRequest is the header of code 1002.
type ElectMasterRequest struct {
	ClusterName    string      `ext:"clusterName,required"`
	BrokerName     string      `ext:"brokerName,required"`
	BrokerID       ha.BrokerID `ext:"brokerId,required"` // ha.NoBroker: anybody
	DesignateElect bool        `ext:"designateElect,required"`
	InvokeTime     int64       `ext:"invokeTime"`
	ReplicaReport
}

// ElectMasterResponse answers 1002; the body is an ElectMasterBody.
type ElectMasterResponse struct {
	MasterBrokerID    ha.BrokerID    `ext:"masterBrokerId"`
	MasterAddress     string         `ext:"masterAddress"`
	MasterEpoch       ha.MasterEpoch `ext:"masterEpoch,always"`
	SyncStateSetEpoch ha.SetEpoch    `ext:"syncStateSetEpoch,always"`
	MasterView
}

// NextBrokerIDRequest is the header of code 1012.
type NextBrokerIDRequest struct {
	ClusterName string `ext:"clusterName,required"`
	BrokerName  string `ext:"brokerName,required"`
}

// NextBrokerIDResponse answers 1012.
type NextBrokerIDResponse struct {
	ClusterName  string      `ext:"clusterName"`
	BrokerName   string      `ext:"brokerName"`
	NextBrokerID ha.BrokerID `ext:"nextBrokerId,required"` // first 1
}

// ApplyBrokerIDRequest is the header of code 1013.
type ApplyBrokerIDRequest struct {
	ClusterName       string      `ext:"clusterName,required"`
	BrokerName        string      `ext:"brokerName,required"`
	AppliedBrokerID   ha.BrokerID `ext:"appliedBrokerId,required"`
	RegisterCheckCode string      `ext:"registerCheckCode,required"` // "address;timestamp"
	Identity
}

// ApplyBrokerIDResponse answers 1013.
type ApplyBrokerIDResponse struct {
	ClusterName string `ext:"clusterName"`
	BrokerName  string `ext:"brokerName"`
}

// RegisterToControllerRequest is the header of code 1003.
type RegisterToControllerRequest struct {
	ClusterName      string      `ext:"clusterName,required"`
	BrokerName       string      `ext:"brokerName,required"`
	BrokerID         ha.BrokerID `ext:"brokerId,required"`
	BrokerAddress    string      `ext:"brokerAddress,required"`
	InvokeTime       int64       `ext:"invokeTime"`
	ElectionPriority int32       `ext:"lsPriority"`
	ReplicaReport
}

// RegisterToControllerResponse answers 1003; the body is a SyncStateSetBody.
// Master fields are absent while no live master is known.
type RegisterToControllerResponse struct {
	ClusterName       string         `ext:"clusterName"`
	BrokerName        string         `ext:"brokerName"`
	MasterBrokerID    ha.BrokerID    `ext:"masterBrokerId"`
	MasterAddress     string         `ext:"masterAddress"`
	MasterEpoch       ha.MasterEpoch `ext:"masterEpoch"`
	SyncStateSetEpoch ha.SetEpoch    `ext:"syncStateSetEpoch"`
	// BootFloor is set when the registered boot repeats one that another life of this
	// store used (a restored backup, a rolled-back machine): the broker may join no
	// set until it has raised its boot above BootFloor, durably, and registered again
	// (P1, P18).
	BootFloor ha.Boot `ext:"lsBootFloor"`
	MasterView
}

// ReplicaInfoRequest is the header of code 1004.
type ReplicaInfoRequest struct {
	BrokerName  string `ext:"brokerName,required"`
	ClusterName string `ext:"lsCluster"`
}

// ReplicaInfoResponse answers 1004; the body is a SyncStateSetBody.
type ReplicaInfoResponse struct {
	MasterBrokerID ha.BrokerID    `ext:"masterBrokerId"`
	MasterAddress  string         `ext:"masterAddress"`
	MasterEpoch    ha.MasterEpoch `ext:"masterEpoch,always"`
	MasterView
}

// ControllerMetadata answers 1005.
type ControllerMetadata struct {
	Group         string `ext:"group,always"`
	LeaderID      string `ext:"controllerLeaderId,always"`
	LeaderAddress string `ext:"controllerLeaderAddress"`
	IsLeader      bool   `ext:"isLeader,always"`
	Peers         string `ext:"peers,always"` // "id:host:port" joined with ";"
	Term          uint64 `ext:"lsTerm"`       // newest term known: brokers believe the highest
}

// RoleChanged is the header of code 1008, one-way; the body is a SyncStateSetBody.
type RoleChanged struct {
	MasterAddress     string         `ext:"masterAddress"`
	MasterEpoch       ha.MasterEpoch `ext:"masterEpoch,always"`
	SyncStateSetEpoch ha.SetEpoch    `ext:"syncStateSetEpoch,always"`
	MasterBrokerID    ha.BrokerID    `ext:"masterBrokerId"`
	BrokerName        string         `ext:"lsBrokerName"`
	MasterView
}

// RegisterRequest is the header of the codes of registers. Read uses Name, write
// Name and Value, swap all three.
type RegisterRequest struct {
	Name  string `ext:"name,required"` // at most 256 bytes
	Value string `ext:"value"`         // to be written; at most 256 bytes
	From  string `ext:"from"`          // swap: the value it must have
}

// RegisterResponse answers a read.
type RegisterResponse struct {
	Value string `ext:"value,always"`
}
