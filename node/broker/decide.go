package broker

// PolicyKind names an acknowledgement policy.
type PolicyKind uint8

// The policies (HA contracts 6.1).
const (
	LocalDurable PolicyKind = iota // the master's own watermark
	ReplicaCount                   // that many distinct members, the master counted; ≥ 2
	AllInSyncSet                   // each member of the SyncStateSet
)

// AckPolicy says what an acknowledged write proves.
type AckPolicy struct {
	Kind  PolicyKind
	Count int
}
