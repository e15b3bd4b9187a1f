package storage

import "lockstep/internal/ha"

// Lane is an ordered queue of blocking work: operations of one lane start and
// finish in the order they were issued; lanes run beside each other. LaneRead
// alone is unordered.
type Lane uint8

// The lanes of a store.
const (
	LaneLog   Lane = iota // commit log writes, truncation, segment preparation and removal
	LaneSync              // fsync of the commit log
	LaneQueue             // consume queue batches: derived, synced rarely
	LaneMeta              // small files: checkpoint, identity, marks, caches
	LaneRead              // cold reads; unordered
	LaneRaft              // a controller's raft log and snapshots
	NumLanes  = iota
)

// OpKind says what an operation does.
type OpKind uint8

// The operations. Fields an operation uses are named beside it.
const (
	OpNone       OpKind = iota
	OpAppend            // LaneLog: write Data (contiguous) at Off; no sync (P11)
	OpSync              // LaneSync: make every write that returned before the start durable; Off is the machine's watermark, echoed
	OpTruncate          // LaneLog: cut the log at Off durably, with the cut marker (P10); queues are cut too; Confirm bounds Visible of the answer
	OpPrepare           // LaneLog: allocate the segment that starts at Off and sync its directory entry ahead of need
	OpQueue             // LaneQueue: append Entries to their consume queues
	OpCheckpoint        // LaneMeta: record Off = durable floor, Confirm, Dispatched, WallMillis (P5c)
	OpSave              // LaneMeta: replace small file Name with Blob atomically and durably
	OpExpire            // LaneLog: remove whole segments that end at or below Off, and queue files below them
	OpRead              // LaneRead: up to Max verified log bytes from Off, ending at a record's end and inside one segment
	OpPull              // LaneRead: Pull
	OpSeek              // LaneRead: Pull names the queue, WallMillis the store time to look for (code 29)
	OpLoadMeta          // LaneRead: newest complete metadata checkpoint below Off and all later metadata records (M2)
	OpSuspect           // LaneMeta: leave the suspect mark with reason Name, durably
	OpCleanStop         // LaneMeta: everything synced, then the clean-stop mark (last operation of a life)
	OpRaft              // LaneRaft: Raft
	// OpReset, LaneLog: throw all data away and let the log begin at Off, a segment
	// boundary, to be filled from a master whose log begins there (P19). Name is the
	// reason; with it a new store id is drawn first, durably, and the machine exits to
	// be opened anew. "" keeps the identity and is allowed on an empty log only.
	OpReset
	// OpBoot, LaneMeta: raise the store's boot counter to Max, durably (P18); never
	// lowers it.
	OpBoot
)

// Op is one blocking operation, issued by a machine and performed by its host
// through Store.Do. Everything in it is immutable until its Result is delivered.
type Op struct {
	ID   uint64 // unique in one life of the machine, ascending
	Lane Lane
	Kind OpKind
	Gen  uint32 // bumped by truncation and role changes; a result of an older generation is stale

	Off        ha.LogOffset
	Data       [][]byte
	Max        int
	Entries    []QueueEntry
	Pull       PullArgs
	Name       string
	Blob       []byte
	Confirm    ha.LogOffset
	Dispatched ha.LogOffset
	WallMillis int64
	Raft       any // raft store work of LaneRaft, see raftstore
}

// Result is the outcome of an Op.
type Result struct {
	Op  Op
	Err error
	// Bytes: OpRead log bytes; OpPull stored records, whole.
	Bytes []byte
	// Records: OpLoadMeta, one stored record each.
	Records [][]byte
	// Pull outcome.
	Pull PullResult
	// Offset: OpSeek queue offset; OpExpire new minimum log offset.
	Offset int64
	// Queues: OpTruncate and OpExpire, the bounds of all queues afterwards, as in
	// Recovered.
	Queues []QueueBounds
	Raft   any
}

// QueueEntry is one consume queue unit together with its place.
type QueueEntry struct {
	Topic  string
	Queue  int32
	Offset int64        // index in the queue
	Log    ha.LogOffset // physical offset of the record
	Size   int32        // record size, bytes
	Tag    int64        // tag hash, or delivery time of a delayed message
}

// PullArgs asks for messages of one queue.
type PullArgs struct {
	Topic    string
	Queue    int32
	Offset   int64 // first queue offset wanted
	MaxMsgs  int
	MaxBytes int
	Limit    ha.LogOffset // records that end above it are not served (confirm)
	Tags     []int64      // wanted tag hashes; empty means all
}

// PullResult says what a cold pull found.
type PullResult struct {
	Next    int64 // queue offset after the last entry scanned
	Matched int   // messages in Bytes
	Scanned int   // entries looked at
}

// QueueBounds is the range of offsets a consume queue holds: [Min, Max), and
// Visible, the offset after the last entry whose record ends at or below the
// confirm offset that the store was opened or cut with (Recovered.Confirm,
// Op.Confirm): what consumers may see before confirm has moved again.
type QueueBounds struct {
	Topic    string
	Queue    int32
	Min, Max int64
	Visible  int64
}

// System topics of Lockstep's own records. They are ordinary native records
// under RocketMQ's system prefix.
const (
	MetaTopic    = "rmq_sys_LOCKSTEP_META"  // metadata deltas and checkpoints (M1–M10)
	BarrierTopic = "rmq_sys_LOCKSTEP_EPOCH" // the first record of each epoch (P7)
)

// Identity is who a store belongs to and which life this is (P1).
type Identity struct {
	Cluster string
	Group   string // RocketMQ's brokerName
	Broker  ha.BrokerID
	Store   ha.StoreID
	Boot    ha.Boot
	Nonce   uint64 // drawn at each start; tells a cloned or rolled-back store
}

// Recovered is what opening a store found out and made true: everything in
// [Min, End) was verified, rewritten where needed and is durable (P5a).
type Recovered struct {
	Identity     Identity
	Min, End     ha.LogOffset
	Confirm      ha.LogOffset // persisted confirm, a lower bound
	Epochs       ha.Epochs    // derived from barrier records; the epoch file fills in foreign epochs (P9)
	HighestEpoch ha.MasterEpoch
	Clean        bool     // the last stop was clean
	Claim        ha.Claim // does this store still hold all it acknowledged? (P1)
	Suspect      string   // why the store is not promotable; "" when it is fine
	TornBytes    int64    // bytes of an incomplete last write that were cut
	Queues       []QueueBounds
	Meta         [][]byte // records of MetaTopic from the newest complete checkpoint on
	LastBarrier  []byte   // newest barrier record, nil when there is none
	// Config holds the JSON tables under config/ of a store whose log has no
	// metadata records: a Java broker ran here (M10). Nil otherwise.
	Config []ConfigFile
}

// ConfigFile is one JSON table of a Java broker: topics.json,
// subscriptionGroup.json or consumerOffset.json.
type ConfigFile struct {
	Name string // without the directory
	Text []byte
}
