package wire

// The hot headers are read from the scanned fields straight into their structs.
// Anything unusual (an unknown field, a value that is no plain number, a field
// twice, a required one missing) leaves the frame in its generic form, where
// nothing is lost and errors name the field.

// typed fills the hot form of f and reports whether it did.
func (d *Decoder) typed(f *Frame, fields []Field) bool {
	if f.Head.Response() {
		return d.typedResponse(f, fields)
	}
	switch f.Head.Code {
	case ReqSendMessage, ReqSendMessageV2, ReqSendBatch:
		f.Send = d.sends.keep(fillSend(d.sends.next(), fields, letterCode(f.Head.Code)))
		return f.Send != nil
	case ReqPull, ReqLitePull:
		f.Pull = d.pulls.keep(fillPull(d.pulls.next(), fields))
		return f.Pull != nil
	}
	return false
}

// typedResponse tells the two hot answers by their fields: nothing else has a
// queueOffset with a msgId, or a nextBeginOffset.
func (d *Decoder) typedResponse(f *Frame, fields []Field) bool {
	for i := range fields {
		switch fields[i].Key {
		case "msgId":
			f.SendOK = d.sendOKs.keep(fillSendOK(d.sendOKs.next(), fields))
			return f.SendOK != nil
		case "nextBeginOffset":
			f.PullOK = d.pullOKs.keep(fillPullOK(d.pullOKs.next(), fields))
			return f.PullOK != nil
		}
	}
	return false
}

// filler reads fields and remembers what went wrong.
type filler struct {
	seen uint32 // one bit a field
	bad  bool
}

func (r *filler) mark(bit uint) {
	r.bad = r.bad || r.seen&(1<<bit) != 0
	r.seen |= 1 << bit
}

func (r *filler) text(bit uint, to *string, v string) {
	r.mark(bit)
	*to = v
}

func (r *filler) int64(bit uint, to *int64, v string) {
	r.mark(bit)
	n, ok := plainInt(v)
	r.bad = r.bad || !ok
	*to = n
}

func (r *filler) int32(bit uint, to *int32, v string) {
	r.mark(bit)
	n, ok := plainInt(v)
	r.bad = r.bad || !ok || n != int64(int32(n))
	*to = int32(n)
}

func (r *filler) bool(bit uint, to *bool, v string) {
	r.mark(bit)
	*to = v == "true"
	r.bad = r.bad || v != "true" && v != "false"
}

// sendRequired are the bits of the required fields, a to h.
const sendRequired = 1<<8 - 1

func fillSend(h *SendMessageRequest, fields []Field, letters bool) bool {
	var r filler
	for i := range fields {
		letter := byte(0)
		if key := fields[i].Key; !letters {
			letter = sendLetter(key)
		} else if len(key) == 1 {
			letter = key[0]
		}
		fillSendField(&r, h, letter, fields[i].Value)
	}
	return !r.bad && r.seen&sendRequired == sendRequired
}

func fillSendField(r *filler, h *SendMessageRequest, letter byte, v string) {
	bit := uint(letter - 'a')
	switch letter {
	case 'a':
		r.text(bit, &h.ProducerGroup, v)
	case 'b':
		r.text(bit, &h.Topic, v)
	case 'c':
		r.text(bit, &h.DefaultTopic, v)
	case 'd':
		r.int32(bit, &h.DefaultTopicQueueNums, v)
	case 'e':
		r.int32(bit, &h.QueueID, v)
	case 'f':
		r.int32(bit, &h.SysFlag, v)
	case 'g':
		r.int64(bit, &h.BornTimestamp, v)
	case 'h':
		r.int32(bit, &h.Flag, v)
	case 'i':
		r.text(bit, &h.Properties, v)
	case 'j':
		r.int32(bit, &h.ReconsumeTimes, v)
	case 'k':
		r.bool(bit, &h.UnitMode, v)
	case 'l':
		r.int32(bit, &h.MaxReconsumeTimes, v)
	case 'm':
		r.bool(bit, &h.Batch, v)
	case 'n':
		r.text(bit, &h.BrokerName, v)
	default:
		r.bad = true
	}
}

// sendLetter is the letter of a long name; 0 when it is no field of a send.
func sendLetter(key string) byte {
	switch key {
	case "producerGroup":
		return 'a'
	case "topic":
		return 'b'
	case "defaultTopic":
		return 'c'
	case "defaultTopicQueueNums":
		return 'd'
	case "queueId":
		return 'e'
	case "sysFlag":
		return 'f'
	case "bornTimestamp":
		return 'g'
	case "flag":
		return 'h'
	case "properties":
		return 'i'
	case "reconsumeTimes":
		return 'j'
	case "unitMode":
		return 'k'
	case "maxReconsumeTimes":
		return 'l'
	case "batch":
		return 'm'
	case "bname":
		return 'n'
	}
	return 0
}

// sendOKRequired are the bits of msgId, queueId and queueOffset.
const sendOKRequired = 1<<3 - 1

func fillSendOK(h *SendMessageResponse, fields []Field) bool {
	var r filler
	for i := range fields {
		switch v := fields[i].Value; fields[i].Key {
		case "msgId":
			r.text(0, &h.MsgID, v)
		case "queueId":
			r.int32(1, &h.QueueID, v)
		case "queueOffset":
			r.int64(2, &h.QueueOffset, v)
		case "transactionId":
			r.text(3, &h.TransactionID, v)
		case "batchUniqId":
			r.text(4, &h.BatchUniqID, v)
		case "recallHandle":
			r.text(5, &h.RecallHandle, v)
		case "MSG_REGION":
			r.text(6, &h.Region, v)
		case "TRACE_ON":
			r.text(7, &h.TraceOn, v)
		case "lsDurability":
			r.text(8, &h.Durability, v)
		default:
			return false
		}
	}
	return !r.bad && r.seen&sendOKRequired == sendOKRequired
}

// pullRequired are the bits of the nine required fields.
const pullRequired = 1<<9 - 1

func fillPull(h *PullRequest, fields []Field) bool {
	var r filler
	for i := range fields {
		switch v := fields[i].Value; fields[i].Key {
		case "consumerGroup":
			r.text(0, &h.ConsumerGroup, v)
		case "topic":
			r.text(1, &h.Topic, v)
		case "queueId":
			r.int32(2, &h.QueueID, v)
		case "queueOffset":
			r.int64(3, &h.QueueOffset, v)
		case "maxMsgNums":
			r.int32(4, &h.MaxMsgNums, v)
		case "sysFlag":
			r.int32(5, &h.SysFlag, v)
		case "commitOffset":
			r.int64(6, &h.CommitOffset, v)
		case "suspendTimeoutMillis":
			r.int64(7, &h.SuspendTimeoutMillis, v)
		case "subVersion":
			r.int64(8, &h.SubVersion, v)
		case "subscription":
			r.text(9, &h.Subscription, v)
		case "expressionType":
			r.text(10, &h.ExpressionType, v)
		case "maxMsgBytes":
			r.int32(11, &h.MaxMsgBytes, v)
		case "requestSource":
			r.int32(12, &h.RequestSource, v)
		case "proxyFrowardClientId":
			r.text(13, &h.ProxyForwardClientID, v)
		case "bname":
			r.text(14, &h.BrokerName, v)
		default:
			return false
		}
	}
	return !r.bad && r.seen&pullRequired == pullRequired
}

// pullOKRequired are the bits of the four required fields.
const pullOKRequired = 1<<4 - 1

func fillPullOK(h *PullResponse, fields []Field) bool {
	var r filler
	for i := range fields {
		switch v := fields[i].Value; fields[i].Key {
		case "suggestWhichBrokerId":
			r.int64(0, &h.SuggestWhichBrokerID, v)
		case "nextBeginOffset":
			r.int64(1, &h.NextBeginOffset, v)
		case "minOffset":
			r.int64(2, &h.MinOffset, v)
		case "maxOffset":
			r.int64(3, &h.MaxOffset, v)
		case "offsetDelta":
			r.int64(4, &h.OffsetDelta, v)
		case "topicSysFlag":
			r.int32(5, &h.TopicSysFlag, v)
		case "groupSysFlag":
			r.int32(6, &h.GroupSysFlag, v)
		case "forbiddenType":
			r.int32(7, &h.ForbiddenType, v)
		default:
			return false
		}
	}
	return !r.bad && r.seen&pullOKRequired == pullOKRequired
}
