package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fieldWriter writes header fields in either encoding and sums them for the
// seal. The hot headers call it field by field in the order of their names, so
// that nothing is allocated and the seal's order is the written one.
type fieldWriter struct {
	dst    []byte
	count  int
	binary bool
	sealed bool
	sum    uint32
	long   string // a name that does not fit the binary header; "" when all fit
}

// writeFields writes whichever form of the header f has, and the seal last.
func (w *fieldWriter) writeFields(f *Frame) {
	if w.sealed = f.Head.Sealed; w.sealed {
		w.sum = sealHead(&f.Head)
	}
	switch {
	case f.Send != nil && letterCode(f.Head.Code):
		w.sendLetters(f.Send)
	case f.Send != nil:
		w.sendLong(f.Send)
	case f.SendOK != nil:
		w.sendOK(f.SendOK)
	case f.Pull != nil:
		w.pull(f.Pull)
	case f.PullOK != nil:
		w.pullOK(f.PullOK)
	default:
		w.ext(f.Head.Ext)
	}
	if w.sealed {
		w.sealed = false
		start := w.open(sealKey)
		w.dst = appendSeal(w.dst, sealBytesPart(w.sum, f.Body))
		w.shut(sealKey, start)
	}
}

// ext writes a generic header in its own order. The seal is summed in the order
// of names, which a relay cannot change.
func (w *fieldWriter) ext(ext Ext) {
	if w.sealed {
		w.sum = sealExt(w.sum, ext)
	}
	sealed := w.sealed
	w.sealed = false
	for i := range ext {
		if ext[i].Key != sealKey {
			w.text(ext[i].Key, ext[i].Value)
		}
	}
	w.sealed = sealed
}

// begin writes everything of a field before its value; size is the length of the
// value.
func (w *fieldWriter) begin(key string, size int) {
	w.count++
	if w.binary {
		if len(key) > math.MaxInt16 {
			w.long = key
		}
		w.dst = binary.BigEndian.AppendUint16(w.dst, uint16(len(key)))
		w.dst = append(w.dst, key...)
		w.dst = binary.BigEndian.AppendUint32(w.dst, uint32(size))
		return
	}
	if w.count == 1 {
		w.dst = append(w.dst, `,"extFields":{`...)
	} else {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(appendJSONText(w.dst, key), ':')
}

// text writes a field whose value may hold any character.
func (w *fieldWriter) text(key, value string) {
	w.begin(key, len(value))
	if w.sealed {
		w.sum = sealField(w.sum, key, value)
	}
	if w.binary {
		w.dst = append(w.dst, value...)
	} else {
		w.dst = appendJSONText(w.dst, value)
	}
}

// some writes a text unless it is empty.
func (w *fieldWriter) some(key, value string) {
	if value != "" {
		w.text(key, value)
	}
}

// open begins a field whose value is plain ASCII without quotes and is appended
// to dst by the caller; shut ends it. The length of a binary value is filled in
// by shut.
func (w *fieldWriter) open(key string) (start int) {
	w.begin(key, 0)
	if !w.binary {
		w.dst = append(w.dst, '"')
	}
	return len(w.dst)
}

func (w *fieldWriter) shut(key string, start int) {
	value := w.dst[start:]
	if w.sealed {
		w.sum = sealBytesPart(sealTextPart(w.sum, key), value)
	}
	if w.binary {
		binary.BigEndian.PutUint32(w.dst[start-4:], uint32(len(value)))
	} else {
		w.dst = append(w.dst, '"')
	}
}

// num writes a number.
func (w *fieldWriter) num(key string, n int64) {
	start := w.open(key)
	w.dst = strconv.AppendInt(w.dst, n, 10)
	w.shut(key, start)
}

// nonzero writes a number unless it is 0.
func (w *fieldWriter) nonzero(key string, n int64) {
	if n != 0 {
		w.num(key, n)
	}
}

// yes writes a boolean when it is true.
func (w *fieldWriter) yes(key string, b bool) {
	if b {
		w.text(key, "true")
	}
}

// int appends a bare number, outside any field.
func (w *fieldWriter) int(n int64) { w.dst = strconv.AppendInt(w.dst, n, 10) }

func (w *fieldWriter) sendLong(h *SendMessageRequest) {
	w.yes("batch", h.Batch)
	w.some("bname", h.BrokerName)
	w.num("bornTimestamp", h.BornTimestamp)
	w.text("defaultTopic", h.DefaultTopic)
	w.num("defaultTopicQueueNums", int64(h.DefaultTopicQueueNums))
	w.num("flag", int64(h.Flag))
	w.nonzero("maxReconsumeTimes", int64(h.MaxReconsumeTimes))
	w.text("producerGroup", h.ProducerGroup)
	w.some("properties", h.Properties)
	w.num("queueId", int64(h.QueueID))
	w.nonzero("reconsumeTimes", int64(h.ReconsumeTimes))
	w.num("sysFlag", int64(h.SysFlag))
	w.text("topic", h.Topic)
	w.yes("unitMode", h.UnitMode)
}

func (w *fieldWriter) sendLetters(h *SendMessageRequest) {
	w.text("a", h.ProducerGroup)
	w.text("b", h.Topic)
	w.text("c", h.DefaultTopic)
	w.num("d", int64(h.DefaultTopicQueueNums))
	w.num("e", int64(h.QueueID))
	w.num("f", int64(h.SysFlag))
	w.num("g", h.BornTimestamp)
	w.num("h", int64(h.Flag))
	w.some("i", h.Properties)
	w.nonzero("j", int64(h.ReconsumeTimes))
	w.yes("k", h.UnitMode)
	w.nonzero("l", int64(h.MaxReconsumeTimes))
	w.yes("m", h.Batch)
	w.some("n", h.BrokerName)
}

func (w *fieldWriter) sendOK(h *SendMessageResponse) {
	w.some("MSG_REGION", h.Region)
	w.some("TRACE_ON", h.TraceOn)
	w.some("batchUniqId", h.BatchUniqID)
	w.some("lsDurability", h.Durability)
	if h.MsgID == "" && h.Stored.IPLen > 0 {
		start := w.open("msgId")
		w.dst = h.Stored.AppendText(w.dst)
		w.shut("msgId", start)
	} else {
		w.text("msgId", h.MsgID)
	}
	w.num("queueId", int64(h.QueueID))
	w.num("queueOffset", h.QueueOffset)
	w.some("recallHandle", h.RecallHandle)
	w.some("transactionId", h.TransactionID)
}

func (w *fieldWriter) pull(h *PullRequest) {
	w.some("bname", h.BrokerName)
	w.num("commitOffset", h.CommitOffset)
	w.text("consumerGroup", h.ConsumerGroup)
	w.some("expressionType", h.ExpressionType)
	w.nonzero("maxMsgBytes", int64(h.MaxMsgBytes))
	w.num("maxMsgNums", int64(h.MaxMsgNums))
	w.some("proxyFrowardClientId", h.ProxyForwardClientID)
	w.num("queueId", int64(h.QueueID))
	w.num("queueOffset", h.QueueOffset)
	w.nonzero("requestSource", int64(h.RequestSource))
	w.num("subVersion", h.SubVersion)
	w.some("subscription", h.Subscription)
	w.num("suspendTimeoutMillis", h.SuspendTimeoutMillis)
	w.num("sysFlag", int64(h.SysFlag))
	w.text("topic", h.Topic)
}

func (w *fieldWriter) pullOK(h *PullResponse) {
	w.nonzero("forbiddenType", int64(h.ForbiddenType))
	w.nonzero("groupSysFlag", int64(h.GroupSysFlag))
	w.num("maxOffset", h.MaxOffset)
	w.num("minOffset", h.MinOffset)
	w.num("nextBeginOffset", h.NextBeginOffset)
	w.nonzero("offsetDelta", h.OffsetDelta)
	w.num("suggestWhichBrokerId", h.SuggestWhichBrokerID)
	w.nonzero("topicSysFlag", int64(h.TopicSysFlag))
}

// sortedByKey returns fields in the order of their names; room holds short ones.
func sortedByKey(ext Ext, room *[48]Field) Ext {
	sorted := append(Ext(room[:0]), ext...)
	slices.SortStableFunc(sorted, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return sorted
}
