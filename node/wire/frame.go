// Package wire is the byte level: remoting frames with JSON and binary headers
// (wire contracts section 1), the replication stream of Lockstep brokers, and
// the typed headers and bodies of every request the product speaks.
//
// Remoting frame:
//
//	4  length of what follows   1  header encoding (0 JSON, 1 binary)   3  header length
//	n  header                   m  body
//
// Replication frame (the first four bytes are never 0–4, so that Java's states
// can be told apart on one port, rule P20):
//
//	4  magic "LSR\x01"   1  kind   4  header length   4  body length   n  header   m  body   4  CRC-32C of all before
//
// Raft frame, whose body is opaque here (on real hosts gRPC carries it):
//
//	4  length of what follows   4  CRC-32C of body length and body   n  body
package wire

import "lockstep/internal/ha"

// Link is the kind of a stream; it decides the framing.
type Link uint8

// The links.
const (
	Remoting    Link = iota // RocketMQ remoting: clients, admin, brokers, controllers, name servers
	Replication             // commit log replication between brokers
	Raft                    // controller to controller
)

// String names the link.
func (l Link) String() string { return [...]string{"remoting", "replication", "raft"}[l%3] }

// MaxFrameBytes is the size limit of a frame, its length word included.
const MaxFrameBytes = 16 << 20

// Frame is one message on a stream. Remoting uses Head (or the hot typed form
// beside it) and Body; Replication uses Replica and Body; Raft uses Body.
//
// Send, SendOK, Pull and PullOK are the hot typed forms of the most frequent
// headers. When one is set, Head.Ext is nil and the typed form is the header;
// Head's own members are always filled. Read them through SendRequest,
// SendResponse, PullRequest and PullResponse, which take either form.
type Frame struct {
	Link    Link
	Head    Head
	Send    *SendMessageRequest  // codes 10, 310, 320
	SendOK  *SendMessageResponse // answer to those when the message was stored
	Pull    *PullRequest         // codes 11, 361
	PullOK  *PullResponse        // answer to those
	Replica *Replica
	Body    []byte
	// Prepared is what the receiving machine's Prepare made of the frame on the
	// session's goroutine; nil when it has nothing to prepare.
	Prepared any
}

// Head is a remoting header.
type Head struct {
	Code     int32 // request code, or response code when Flag has FlagResponse
	Language string
	Version  int32
	Opaque   int32
	Flag     int32
	Remark   string
	Ext      Ext
	// Sealed: the frame carries an end-to-end checksum (ext field lsCrc). The
	// encoder adds it when set; the decoder sets it after verifying, so a sealed
	// frame that arrives is whole. Only Lockstep's own nodes seal.
	Sealed bool
}

// Flag bits.
const (
	FlagResponse int32 = 1
	FlagOneway   int32 = 2
)

// flagSealed is set on the wire beside the seal, so that damage to the seal's own
// name cannot pass for an unsealed frame. Java looks at the other bits only. It
// never shows in Head.Flag, where Sealed stands for it.
const flagSealed int32 = 4

// wireFlag is the flag as it is written.
func (h *Head) wireFlag() int32 {
	if h.Sealed {
		return h.Flag | flagSealed
	}
	return h.Flag
}

// Response reports whether the frame answers a request.
func (h *Head) Response() bool { return h.Flag&FlagResponse != 0 }

// Oneway reports whether no answer may be sent.
func (h *Head) Oneway() bool { return h.Flag&FlagOneway != 0 }

// Field is one ext field.
type Field struct{ Key, Value string }

// Ext is the ext field map in the order it was written.
type Ext []Field

// Get returns the value of key and whether it is present.
func (e Ext) Get(key string) (string, bool) {
	for i := range e {
		if e[i].Key == key {
			return e[i].Value, true
		}
	}
	return "", false
}

// Set replaces or appends key.
func (e *Ext) Set(key, value string) {
	for i := range *e {
		if (*e)[i].Key == key {
			(*e)[i].Value = value
			return
		}
	}
	*e = append(*e, Field{key, value})
}

// ReplicaKind is the type of a replication frame.
type ReplicaKind uint8

// The replication frames, in session order.
const (
	// ReplicaHello, slave → master: Cluster, Group, Self, Nonce, Epoch (the term it
	// follows), Offset (durable end), Min, Epochs, SegmentBytes, PropCRC, Class,
	// Learner.
	ReplicaHello ReplicaKind = 1 + iota
	// ReplicaWelcome, master → slave: Self, Nonce, Epoch (term), Offset (end), Min,
	// Confirm, Epochs. The slave finds the consistent point, truncates durably,
	// then sends Start.
	ReplicaWelcome
	// ReplicaRefuse, master → slave: Reason, and OutOfRange when the slave's end is
	// below Min (P19). The master closes.
	ReplicaRefuse
	// ReplicaStart, slave → master: Epoch (term), Offset = durable end after
	// truncation = where the transfer begins. The verified prefix (P8).
	ReplicaStart
	// ReplicaAppend, master → slave: Term, Epoch and EpochStart of the bytes, Offset
	// of the first byte, Confirm, Body. An empty body is a heartbeat. A chunk never
	// crosses an epoch's or a segment's end.
	ReplicaAppend
	// ReplicaAck, slave → master: Term, Offset (exclusive end), Class.
	ReplicaAck
)

// Replica is the header of a replication frame; kinds name the fields they use.
type Replica struct {
	Kind         ReplicaKind
	Cluster      string
	Group        string
	Self         ha.Incarnation
	Nonce        uint64
	Term         ha.MasterEpoch
	Epoch        ha.MasterEpoch
	EpochStart   ha.LogOffset
	Offset       ha.LogOffset
	Min          ha.LogOffset
	Confirm      ha.LogOffset
	Class        ha.AckClass
	Learner      bool
	PropCRC      bool
	OutOfRange   bool
	SegmentBytes int64
	Epochs       ha.Epochs
	Reason       string
	// Member, in appends: the receiving incarnation is in the committed set, so its
	// claim holds again (P2).
	Member bool
}
