package broker

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Prepare does the work of a request that needs no state of the machine on the
// session's goroutine: decoding, checksums, and the layout of the stored record.
// It reads only fixed options (node.Preparer). What is wrong with a request is
// kept with it and answered by the machine, in the contract's order.
func (b *Broker) Prepare(now node.Now, f *wire.Frame, p node.Peer) {
	if f.Link != wire.Remoting || f.Head.Response() {
		return
	}
	switch f.Head.Code {
	case wire.ReqSendMessage, wire.ReqSendMessageV2, wire.ReqSendBatch:
		f.Prepared = b.prepareSend(now, f, p)
	case wire.ReqHeartbeat:
		h := &preparedHeartbeat{addr: p.Addr}
		h.err = wire.UnmarshalBody(f.Body, &h.data)
		f.Prepared = h
	case wire.ReqPull, wire.ReqLitePull:
		f.Prepared = &preparedPull{arrived: now.Mono}
	}
}

// preparedPull carries when a pull arrived, for the queue-wait limit.
type preparedPull struct{ arrived node.Time }

// preparedSend is a send laid out for the log.
type preparedSend struct {
	arrived node.Time
	header  wire.SendMessageRequest
	// malformed is what stopped the header from being read; nothing else is filled.
	malformed string
	// illegal is what is wrong with the message itself: code 13, 16 for kinds this
	// broker does not store, 29 for a name that nothing can be stored under.
	illegal  *refusal
	messages []preparedMessage
	single   [1]preparedMessage // backing of messages for the usual case
	wait     bool               // waitStoreMsgOK
	delayed  bool               // carries a delay level
	uniqKey  string             // transactionId of the answer
	born     storage.Host
}

// preparedMessage is one record with holes for what the appender assigns.
type preparedMessage struct {
	record storage.Prepared
	tag    int64
}

// Positions in a prepared record that the broker itself may still fill.
const (
	recordQueueAt   = 12
	recordSysFlagAt = 36
)

// setQueue fills the queue id, which is open until the broker chose a queue.
func (m *preparedMessage) setQueue(id int32) {
	binary.BigEndian.PutUint32(m.record.Bytes[recordQueueAt:], uint32(id))
}

// setMultiTags marks a message of a MULTI_TAG topic.
func (m *preparedMessage) setMultiTags() {
	p := m.record.Bytes[recordSysFlagAt:]
	binary.BigEndian.PutUint32(p, binary.BigEndian.Uint32(p)|storage.FlagMultiTags)
}

func (b *Broker) prepareSend(now node.Now, f *wire.Frame, peer node.Peer) *preparedSend {
	p := &preparedSend{arrived: now.Mono, wait: true, born: hostOf(peer.Addr)}
	h, err := f.SendRequest()
	p.header = h
	if err != nil {
		p.malformed = err.Error()
		return p
	}
	if why := checkTopicName(h.Topic); why != "" {
		p.illegal = &refusal{wire.CodeInvalidParameter, why}
		return p
	}
	if h.Batch {
		b.prepareBatch(p, f.Body)
		return p
	}
	b.prepareSingle(now, p, f)
	return p
}

// illegalf records why the message cannot be stored (code 13).
func (p *preparedSend) illegalf(format string, args ...any) {
	p.illegal = &refusal{wire.CodeMessageIllegal, fmt.Sprintf(format, args...)}
}

// checkSizes applies the limits on bodies and properties.
func (b *Broker) checkSizes(p *preparedSend, body []byte, properties string) bool {
	switch {
	case len(body) == 0:
		p.illegalf("the message has no body")
	case len(body) > b.o.MaxMessageSize:
		p.illegalf("message body of %d bytes exceeds maxMessageSize %d", len(body), b.o.MaxMessageSize)
	case len(properties) > storage.MaxProperties:
		p.illegalf("message properties of %d bytes exceed %d", len(properties), storage.MaxProperties)
	case p.header.SysFlag&storage.FlagTransactionMask != 0:
		p.illegal = &refusal{wire.CodeNoPermission, "the broker does not store transactional messages"}
	case p.header.SysFlag&innerBatchFlags != 0:
		p.illegalf("the broker does not store inner batches (sysFlag %d)", p.header.SysFlag)
	}
	return p.illegal == nil
}

// innerBatchFlags are the sysFlag bits of inner batches.
const innerBatchFlags = 64 | 128

func (b *Broker) prepareSingle(now node.Now, p *preparedSend, f *wire.Frame) {
	h := &p.header
	if !b.checkSizes(p, f.Body, h.Properties) {
		return
	}
	// One buffer holds the record and, behind it, the edited properties it is laid
	// out from; the parts never overlap.
	edited := len(h.Properties) + editRoom
	buf := make([]byte, 0, storage.MinRecord+64+len(h.Topic)+len(f.Body)+2*edited)
	props := b.edit(p, buf[cap(buf)-edited : cap(buf)][:0], h.Properties)
	if p.illegal != nil {
		return
	}
	if p.uniqKey == "" {
		p.uniqKey = uniqueKey(now.Wall, p.born, f)
		props = storage.AppendProperty(props, propUniqKey, p.uniqKey)
	}
	props = storage.AppendProperty(props, "MSG_REGION", b.o.RegionID)
	props = storage.AppendProperty(props, "TRACE_ON", strconv.FormatBool(b.o.TraceOn))
	props = storage.AppendProperty(props, "CLUSTER", b.o.BrokerClusterName)
	p.messages = p.single[:0]
	b.layOut(p, buf, f.Body, props)
}

// editRoom is what the broker's own properties may take, bytes; more only costs
// another allocation.
const editRoom = 256

// layOut appends the record of one message, laid out in buf, to p.messages.
func (b *Broker) layOut(p *preparedSend, buf, body, props []byte) {
	h := &p.header
	r, err := storage.PrepareRecord(buf, &storage.Draft{
		Topic: h.Topic, Flag: h.Flag, SysFlag: h.SysFlag, BornMillis: h.BornTimestamp, BornHost: p.born,
		StoreHost: b.storeHost, ReconsumeTimes: h.ReconsumeTimes, Body: body, Properties: props,
		PropCRC: b.o.EnabledAppendPropCRC, MaxRecord: b.o.maxRecordBytes(),
	})
	if err != nil {
		p.illegalf("%v", err)
		return
	}
	tag, _ := storage.Property(props, storage.PropTags)
	p.messages = append(p.messages, preparedMessage{record: r, tag: storage.TagHash(tag)})
}

// prepareBatch lays out each message of a batch body.
func (b *Broker) prepareBatch(p *preparedSend, body []byte) {
	if !b.checkSizes(p, body, p.header.Properties) {
		return
	}
	if len(p.header.Topic) > maxTopicName {
		p.illegalf("topic of a batch is longer than %d bytes", maxTopicName)
		return
	}
	entries, err := wire.SplitBatch(body, nil)
	switch {
	case err != nil:
		p.illegalf("the batch is malformed: %v", err)
		return
	case len(entries) > maxBatch:
		p.illegalf("batch of %d messages, at most %d", len(entries), maxBatch)
		return
	}
	b.scanProperties(p, p.header.Properties, nil) // WAIT counts; the rest of them is dropped
	for _, e := range entries {
		if len(e.Body) == 0 {
			p.illegalf("a message of the batch has no body")
		}
		props := b.edit(p, nil, e.Properties)
		if p.illegal != nil {
			return
		}
		p.header.Flag = e.Flag
		b.layOut(p, nil, e.Body, props)
	}
	p.uniqKey = "" // the messages' ids are offset ids
}

// Property names that sending reads.
const (
	propUniqKey   = "UNIQ_KEY"
	propTransMsg  = "TRAN_MSG"
	propWait      = "WAIT"
	propTimerSec  = "TIMER_DELAY_SEC"
	propTimerMs   = "TIMER_DELAY_MS"
	propDeliverMs = "TIMER_DELIVER_MS"
)

// edit copies the well-formed pairs of a properties text to dst, without those
// only a broker may set: a client's POP_CK or property CRC would be believed later.
func (b *Broker) edit(p *preparedSend, dst []byte, text string) []byte {
	b.scanProperties(p, text, func(name, value string) {
		switch name {
		case "POP_CK", "CLUSTER", "MSG_REGION", "TRACE_ON", storage.PropCRC:
		default:
			dst = storage.AppendProperty(dst, name, value)
		}
	})
	return dst
}

// scanProperties calls keep for each well-formed pair and notes what the text
// asks of the broker.
func (b *Broker) scanProperties(p *preparedSend, text string, keep func(name, value string)) {
	for len(text) > 0 {
		var entry string
		entry, text, _ = strings.Cut(text, "\x02")
		name, value, ok := strings.Cut(entry, "\x01")
		if !ok || name == "" || value == "" {
			continue // Java's decoder skips it too
		}
		if keep != nil {
			keep(name, value)
		}
		p.note(name, value)
	}
}

// note records what a property asks for. Delay levels are accepted on retry
// topics only: there the stock Go client falls back to a plain send when it
// cannot send a message back, and refusing it would lose the redelivery. The
// message is then delivered without the delay, which loses nothing.
func (p *preparedSend) note(name, value string) {
	switch name {
	case propUniqKey:
		p.uniqKey = value
	case propWait:
		p.wait = !strings.EqualFold(value, "false")
	case propTransMsg:
		if strings.EqualFold(value, "true") {
			p.illegal = &refusal{wire.CodeNoPermission, "the broker does not store transactional messages"}
		}
	case propTimerSec, propTimerMs, propDeliverMs:
		p.illegalf("the broker does not store timer messages (property %s)", name)
	case storage.PropDelay:
		level, err := strconv.Atoi(value)
		p.delayed = p.delayed || level > 0
		_, retry := retryGroup(p.header.Topic)
		if err != nil || level > 0 && !retry {
			p.illegalf("the broker does not store delayed messages (property DELAY %.20s)", value)
		}
	}
}

// uniqueKey makes the UNIQ_KEY of a message whose client sent none, in RocketMQ's
// layout: address, process id, class-loader hash, milliseconds since the month
// began, counter. The client's connection and request number stand in for
// process and counter, so it needs no state.
func uniqueKey(wall int64, born storage.Host, f *wire.Frame) string {
	id := make([]byte, 0, 28)
	n := 4
	if born.V6 {
		n = 16
	}
	id = append(id, born.Addr[:n]...)
	id = binary.BigEndian.AppendUint16(id, uint16(born.Port))
	id = binary.BigEndian.AppendUint32(id, storage.CRC(f.Body)^uint32(f.Head.Opaque)>>16)
	id = binary.BigEndian.AppendUint32(id, uint32(wall-monthStart(wall)))
	id = binary.BigEndian.AppendUint16(id, uint16(f.Head.Opaque))
	return fmt.Sprintf("%X", id)
}

// monthStart is the first millisecond (UTC) of the month of wall, by the civil
// calendar: days are counted in years that begin in March.
func monthStart(wall int64) int64 {
	const dayMillis = 24 * 60 * 60 * 1000
	const toMarch0 = 719468 // days from 0000-03-01 to 1970-01-01
	days := max(wall, 0)/dayMillis + toMarch0
	ofEra := days % 146097
	year := (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	ofYear := ofEra - (365*year + year/4 - year/100)
	month := (5*ofYear + 2) / 153
	dayOfMonth := ofYear - (153*month+2)/5
	return (max(wall, 0)/dayMillis - dayOfMonth) * dayMillis
}
