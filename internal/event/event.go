// Package event is the one vocabulary of what happens inside machines. The
// simulator's trace and hash, the daemons' log lines and metrics, and the
// judges all read these; nothing else describes a machine from outside.
package event

import (
	"fmt"
	"strings"

	"lockstep/internal/ha"
)

// Kind names an event. Each kind says beside it which fields carry meaning.
type Kind uint8

// The kinds.
const (
	None Kind = iota

	// Broker life and role.
	Started         // Broker, Off=end, Off2=durable floor, Text=incarnation, claim
	RoleApplied     // Epoch, SetEpoch, Broker=master, Text=role ("master", "slave")
	PromotionBegun  // Epoch, Off=end of the kept tail
	BarrierAppended // Epoch, Off=start, Off2=end of the barrier record
	Serving         // Epoch: the master accepts writes from now on
	Demoted         // Epoch: of the authority that ended, Text=reason
	Writable        // Epoch
	NotWritable     // Epoch, Text=reason
	LeaseInstalled  // Epoch, Count=generation
	LeaseExpired    // Epoch
	HandedOver      // Epoch: SIGTERM hand-over finished

	// Replication.
	SlaveJoined      // Broker=slave, Off=verified prefix
	SlaveLeft        // Broker=slave, Text=reason
	Following        // Broker=master, Epoch, Off=start of transfer
	Truncated        // Off=new end, Off2=old end, Epoch, Count=bytes
	EpochRecorded    // Epoch, Off=start
	HandshakeRefused // Broker=peer, Text=reason
	ChunkRefused     // Off=offered, Off2=own end, Text=reason
	RebuildNeeded    // Off=own end, Text=reason
	AlterProposed    // Epoch, SetEpoch=base, Set
	SetAdopted       // Epoch, SetEpoch, Set
	ConfirmFrozen    // Off, Count=thaws before in this epoch (0: it begins so): committed set below minInSyncReplicas
	ConfirmThawed    // Off
	Proven           // Epoch, Off: confirm reached the epoch's start

	// Storage.
	DiskFailed   // Text=operation and error
	DiskFull     // Text
	DiskRoom     // disk full ended
	StoreSuspect // Text
	Expired      // Off=new minimum offset
	Rolled       // Off=start of the new segment

	// Controller.
	LeaderChanged     // Broker=controller id of the leader (0 none), Count=raft term
	BrokerRegistered  // Group, Broker, Text=incarnation
	RegisterRefused   // Group, Broker, Text
	BrokerSilent      // Group, Broker
	Elected           // Group, Broker, Epoch, SetEpoch, Set, Text=why ("clean", "retained", "all-back", "unclean", "designated")
	ElectionFailed    // Group, Epoch, Text
	SetAltered        // Group, Epoch, SetEpoch, Set
	AlterRefused      // Group, Broker, Code, Text
	LeaseGranted      // Group, Broker, Epoch, Count=generation
	RoleNotified      // Group, Broker=told, Epoch, SetEpoch
	SnapshotTaken     // Count=raft index
	SnapshotInstalled // Count=raft index
	MembersChanged    // Set=voters

	// Name server.
	RouteChanged        // Group, Broker=role id, Epoch, Text=address
	RegistrationIgnored // Group, Broker, Epoch, Text
	BrokerExpired       // Group, Broker, Text=address

	// Requests.
	RequestRefused // Code, Count=request code, Text
	FrameRejected  // Text: a session was closed because of what it sent

	// Client.
	RouteLearned // Group, Broker=master, Text=address
	ClientRetry  // Text

	// Mark is a named rare state a sweep must reach: Text=name.
	Mark

	numKinds
)

var names = [numKinds]string{
	"None", "Started", "RoleApplied", "PromotionBegun", "BarrierAppended", "Serving", "Demoted", "Writable",
	"NotWritable", "LeaseInstalled", "LeaseExpired", "HandedOver", "SlaveJoined", "SlaveLeft", "Following",
	"Truncated", "EpochRecorded", "HandshakeRefused", "ChunkRefused", "RebuildNeeded", "AlterProposed",
	"SetAdopted", "ConfirmFrozen", "ConfirmThawed", "Proven", "DiskFailed", "DiskFull", "DiskRoom",
	"StoreSuspect", "Expired", "Rolled", "LeaderChanged", "BrokerRegistered", "RegisterRefused",
	"BrokerSilent", "Elected", "ElectionFailed", "SetAltered", "AlterRefused", "LeaseGranted",
	"RoleNotified", "SnapshotTaken", "SnapshotInstalled", "MembersChanged", "RouteChanged",
	"RegistrationIgnored", "BrokerExpired", "RequestRefused", "FrameRejected", "RouteLearned",
	"ClientRetry", "Mark",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k >= numKinds {
		return "Kind?"
	}
	return names[k]
}

// Event is one thing that happened in a machine. The host adds Node and At.
type Event struct {
	Kind     Kind
	Node     string // name of the node
	At       int64  // host clock, nanoseconds
	Group    string
	Broker   ha.BrokerID
	Epoch    ha.MasterEpoch
	SetEpoch ha.SetEpoch
	Set      ha.IDs
	Off      ha.LogOffset
	Off2     ha.LogOffset
	Count    int64
	Code     int32
	Text     string
}

// String prints the event on one line, empty fields left out.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(e.Kind.String())
	put := func(name string, zero bool, v any) {
		if !zero {
			fmt.Fprintf(&b, " %s=%v", name, v)
		}
	}
	put("group", e.Group == "", e.Group)
	put("broker", e.Broker == 0, int64(e.Broker))
	put("epoch", e.Epoch == 0, int32(e.Epoch))
	put("set-epoch", e.SetEpoch == 0, int32(e.SetEpoch))
	put("set", len(e.Set) == 0, e.Set)
	put("off", e.Off == 0, int64(e.Off))
	put("off2", e.Off2 == 0, int64(e.Off2))
	put("count", e.Count == 0, e.Count)
	put("code", e.Code == 0, e.Code)
	put("text", e.Text == "", fmt.Sprintf("%q", e.Text))
	return b.String()
}
