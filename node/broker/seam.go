package broker

import (
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// This file is the seam inside the broker: what the replicated log (core: role,
// authority, appender, replication, confirm, queues) offers to the services that
// clients see (send, pull, offsets, clients, topics, groups, metadata), and what
// those offer to the core. Services never touch watermarks, sessions of other
// links or the disk lanes; the core never looks into a request.

// placement is a record on its way into the log: the stored bytes with holes for
// queue offset, physical offset and store time (storage.PrepareRecord), laid out
// on the session's goroutine.
type placement struct {
	topic  string
	queue  int32
	record storage.Prepared // stored layout, holes open; copied once into the log tail
	tag    int64            // consume queue tag hash
	noWait bool             // waitStoreMsgOK=false: answered at once after the append, authority still checked
	system bool             // internal record (barrier, metadata): exempt from minInSyncReplicas admission
}

// placed says where a record went.
type placed struct {
	log         ha.LogOffset
	end         ha.LogOffset // exclusive; the watermark its producer waits for
	queueOffset int64
}

// refusal is an answer given before anything was appended: nothing happened.
type refusal struct {
	code   int32
	remark string
}

// waitKind says which answer a waiter gets.
type waitKind uint8

const (
	waitSend waitKind = iota // SEND_OK or a time-out class, with queue offset and message id
	waitCode                 // a bare response code: metadata writes (M5)
)

// waiter is a producer (or a metadata writer) waiting for confirmation up to end.
// Waiters are values in a FIFO ordered by end; no pointer per message.
type waiter struct {
	end         ha.LogOffset
	deadline    node.Time // slaveTimeout / syncFlushTimeout
	session     node.SessionID
	opaque      int32
	kind        waitKind
	epoch       ha.MasterEpoch // acks for records of an earlier epoch are never sent (P7)
	queue       int32
	queueOffset int64
	log         ha.LogOffset
	count       int32 // messages of a batch
	txid        string
	batchIDs    string     // offset message ids of a batch, joined with commas; "" for a single message
	sealed      bool       // the request carried an end-to-end checksum; so does the answer
	durability  Durability // what proven rests on; 0 where nothing was waited for
}

// verdict is how a waiter ends.
type verdict uint8

const (
	proven       verdict = iota // the policy is satisfied: SEND_OK
	diskTimeout                 // FLUSH_DISK_TIMEOUT: appended, local durability unproven
	slaveTimeout                // FLUSH_SLAVE_TIMEOUT: appended, replication unproven; also a Reject after the append
)

// The core offers (implemented in appender.go, queues.go, tail.go, disk.go):
//
//	func (b *Broker) admit(now node.Now) *refusal
//	    may a user record be appended now: role, exact authority, lease, promotion finished, minInSyncReplicas on
//	    the committed set, disk room, stopping; nil means yes. Codes by DESIGN 5 and wire contracts 2.1.
//	func (b *Broker) append(now node.Now, p placement) placed
//	    assigns queue and physical offsets, places the bytes, dispatches (queues, metadata); the caller admitted it.
//	func (b *Broker) await(w waiter)                       // queues an answer; resolved in Settle through b.answer
//	func (b *Broker) queueOf(topic string, id int32) *queue // nil when it has no record yet
//	func (b *Broker) visible(q *queue) int64                // queue offset consumers may see up to (bounded by confirm)
//	func (b *Broker) unproven() bool                        // confirm < start of the own epoch (P7)
//	func (q *queue) entry(off int64) (queueEntry, bool)     // hot entry: record still in the tail
//	func (b *Broker) hot(off ha.LogOffset, size int32) []byte // record bytes still in memory, nil when cold
//	func (b *Broker) disk(op storage.Op, owner diskOwner) uint64 // issue in this Settle; DiskDone comes back to the owner's method
//	func (b *Broker) takeGrown() []*queue                   // queues whose visible end moved since the last call
//	func (b *Broker) emit(e event.Event)
//
// The services offer (implemented in services.go and its neighbours):
//
//	func (b *Broker) serve(now node.Now, s node.SessionID, f *wire.Frame)   // a request of a client or admin code
//	func (b *Broker) answer(now node.Now, w waiter, v verdict)                       // a waiter's end
//	func (b *Broker) applyMeta(record []byte, at ha.LogOffset)                       // a metadata record entered the log (dispatch, M1)
//	func (b *Broker) resetMeta(records [][]byte)                                     // state := function of these records (open, truncation, M2)
//	func (b *Broker) settleServices(now node.Now)                                    // metadata deltas and checkpoints, held pulls, client expiry, notices
//	func (b *Broker) servicesDeadline() node.Time
//	func (b *Broker) servicesSessionDown(now node.Now, s node.SessionID)
//	func (b *Broker) roleChangedServices(now node.Now)                               // became master (after promotion, P7) or slave: republish, drop volatile state
//	func (b *Broker) topicTable() wire.TopicConfigWrapper                            // for name server registration
//	func (b *Broker) registrationGeneration() uint64                                 // rises when the topic table changed and must be re-registered
//	func (b *Broker) servicesDiskDone(now node.Now, r storage.Result)               // any Op issued with ownerServices
//
//	func (b *Broker) stopServices(now node.Now)                                      // clean stop: flush deltas, then once more when the log is quiet: OpSave of the JSON caches (M10)
//	func (b *Broker) metaCheckpoint() (start, end ha.LogOffset)                      // newest complete metadata checkpoint in the log; 0,0 when none. Retention keeps everything from its start (M3)
//	func newServices(o ServiceOptions) services                                      // serviceoptions.go, services.go
//	func (b *Broker) importConfig(files []storage.ConfigFile)                        // at open, when the log holds no metadata records: a Java broker's JSON tables (M10)
//
// Broker embeds the struct `services`, and Options embeds ServiceOptions. Disk work of services is issued with the
// owner `ownerServices`; all its results come back through servicesDiskDone (coldPullDone is one branch of it).
// noWait placements are answered by the services at once; nobody awaits them.
//
// b.fx is the Effects of the call under way (facts and Settle set it), so that
// methods need not pass it on.

// reply sends the answer to request f on session s; a oneway request gets none.
func (b *Broker) reply(s node.SessionID, f *wire.Frame, code int32, remark string, ext wire.Ext, body []byte) {
	if f.Head.Oneway() {
		return
	}
	b.fx.Send(s, wire.Frame{Link: wire.Remoting, Body: body, Head: wire.Head{
		Code: code, Language: "GO", Version: brokerVersion, Opaque: f.Head.Opaque,
		Flag: wire.FlagResponse, Remark: remark, Ext: ext, Sealed: f.Head.Sealed,
	}})
}

// brokerVersion is the protocol version in answers: V5_3_3, which clients take as
// "a 5.x broker" (wire contracts 1.5).
const brokerVersion = 479
