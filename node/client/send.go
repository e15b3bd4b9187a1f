package client

import (
	"fmt"
	"strings"

	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Message properties the client sets; callers may not.
const (
	propUniqKey = "UNIQ_KEY"
	propWait    = "WAIT"
)

// Send begins a send. An error means that nothing was begun: the message breaks a
// limit, or too many operations are unfinished.
func (c *Client) Send(now node.Now, m Message) (Ticket, error) {
	c.now = now
	if err := c.admit(); err != nil {
		return 0, err
	}
	if c.opt.ProducerGroup == "" {
		return 0, fmt.Errorf("send: the client has no producerGroup; set one")
	}
	if err := c.checkMessage(&m); err != nil {
		return 0, fmt.Errorf("send to %.80q: %w", m.Topic, err)
	}
	if m.Key == "" {
		m.Key = c.uniqueKey()
	}
	props, err := properties(&m)
	if err != nil {
		return 0, fmt.Errorf("send to %s: %w", m.Topic, err)
	}
	op := &operation{
		kind: OpSend, body: m.Body, fixed: m.Broker != "", maxReach: 1 + c.opt.RetryTimesWhenSendFailed,
		send: &wire.SendMessageRequest{ProducerGroup: c.opt.ProducerGroup, Topic: m.Topic, DefaultTopic: templateTopic,
			DefaultTopicQueueNums: newTopicQueues, BornTimestamp: now.Wall, Properties: props},
		out: Outcome{Topic: m.Topic, Broker: m.Broker, Queue: m.Queue, Key: m.Key, Offset: -1},
	}
	return c.begin(op, node.Time(c.opt.SendMsgTimeout), node.Time(c.opt.SendMsgMaxTimeoutPerRequest)), nil
}

// admit refuses an operation that nothing can come of.
func (c *Client) admit() error {
	switch {
	case c.stopping:
		return fmt.Errorf("the client is stopping")
	case c.begun+len(c.outcomes) >= c.opt.MaxQueued:
		return fmt.Errorf("%d operations are unfinished or not taken, the limit (maxQueued); take outcomes or wait", c.begun+len(c.outcomes))
	}
	return nil
}

func (c *Client) checkMessage(m *Message) error {
	switch {
	case !validTopic(m.Topic):
		return fmt.Errorf("not a topic name: 1 to 127 of letters, digits, %% | _ -")
	case len(m.Body) == 0:
		return fmt.Errorf("the body is empty; brokers refuse that")
	case len(m.Body) > c.opt.MaxMessageSize:
		return fmt.Errorf("the body has %d bytes, at most %d (maxMessageSize)", len(m.Body), c.opt.MaxMessageSize)
	case strings.ContainsAny(m.Key, " \t\r\n"):
		return fmt.Errorf("key %.80q has blanks, which separate keys", m.Key)
	case m.Broker != "" && m.Queue < 0:
		return fmt.Errorf("queue %d of group %s is negative", m.Queue, m.Broker)
	}
	return nil
}

// validTopic follows wire contracts 4.8.
func validTopic(t string) bool {
	limit := 127
	if strings.HasPrefix(t, "%RETRY%") || strings.HasPrefix(t, "%DLQ%") {
		limit = 255
	}
	return t != "" && len(t) <= limit && !strings.ContainsFunc(t, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%|_-", r))
	})
}

// uniqueKey makes a key that no other message of this client has.
func (c *Client) uniqueKey() string {
	return fmt.Sprintf("%016X%016X", prng.Hash(c.opt.Seed, prng.HashString(c.opt.ClientID)), uint64(c.nextTicket)+1)
}

// properties lays out a message's properties.
func properties(m *Message) (string, error) {
	size := 64 + 2*len(m.Key) + len(m.Tag)
	for _, p := range m.Properties {
		size += len(p.Name) + len(p.Value) + 2
	}
	b := storage.AppendProperty(make([]byte, 0, size), storage.PropKeys, m.Key)
	b = storage.AppendProperty(b, propUniqKey, m.Key)
	own := [2]Property{{storage.PropKeys, m.Key}, {storage.PropTags, m.Tag}}
	used := own[:1]
	if m.Tag != "" {
		b = storage.AppendProperty(b, storage.PropTags, m.Tag)
		used = own[:]
	}
	wait := "true"
	if m.NoWait {
		wait = "false"
	}
	b = storage.AppendProperty(b, propWait, wait)
	for _, p := range m.Properties {
		switch p.Name {
		case storage.PropKeys, storage.PropTags, propUniqKey, propWait, storage.PropCRC:
			return "", fmt.Errorf("property %s is reserved; use the field of Message", p.Name)
		}
		b = storage.AppendProperty(b, p.Name, p.Value)
	}
	for _, list := range [...][]Property{used, m.Properties} {
		for _, p := range list {
			if !storage.ValidProperty(p.Name, p.Value) {
				return "", fmt.Errorf("property %.80q has an empty or unprintable name or value", p.Name)
			}
		}
	}
	if len(b) > storage.MaxProperties {
		return "", fmt.Errorf("properties take %d bytes, at most %d", len(b), storage.MaxProperties)
	}
	return string(b), nil
}

// sendFrame is the frame of a send's current try.
func (op *operation) sendFrame() wire.Frame {
	t := op.current()
	h := *op.send
	h.QueueID, h.BrokerName = t.Queue, t.Broker
	return wire.NewRequest(wire.ReqSendMessageV2, 0, &h, op.body)
}

// sendRule says what an answer to a send means: was it stored, and may another
// broker be tried (wire contracts 3.2, 3.3, the Java column).
type sendRule struct {
	end   TryEnd
	retry bool
}

// sendRules are the codes that say something definite. A code that is missing
// here, and system error with any other remark, leaves open whether the message
// was stored.
var sendRules = map[int32]sendRule{
	wire.CodeSuccess:                 {TryDone, false},
	wire.CodeFlushDiskTimeout:        {TryUnproven, false},
	wire.CodeSlaveNotAvailable:       {TryUnproven, false},
	wire.CodeFlushSlaveTimeout:       {TryUnproven, false},
	wire.CodeSystemBusy:              {TryRefused, true},
	wire.CodeServiceNotAvailable:     {TryRefused, true},
	wire.CodeNoPermission:            {TryRefused, true},
	wire.CodeTopicNotExist:           {TryRefused, true},
	wire.CodeNoBuyerID:               {TryRefused, true},
	wire.CodeNotInCurrentUnit:        {TryRefused, true},
	wire.CodeGoAway:                  {TryRefused, true},
	wire.CodeRequestCodeNotSupported: {TryRefused, false},
	wire.CodeMessageIllegal:          {TryRefused, false},
	wire.CodeGroupNotExist:           {TryRefused, false},
	wire.CodeInvalidParameter:        {TryRefused, false},
	wire.CodeFlowControl:             {TryRefused, false},
	wire.CodeNotLeaderForQueue:       {TryRefused, false},
}

func ruleOfSend(code int32, remark string) sendRule {
	if code == wire.CodeSystemError {
		if strings.Contains(remark, wire.RemarkNotEnoughReplicas) {
			return sendRule{TryRefused, true}
		}
		return sendRule{TryDoubtful, true}
	}
	if r, ok := sendRules[code]; ok {
		return r
	}
	return sendRule{TryDoubtful, false}
}

// judge says what an answer to try t means, and takes what it carries.
func (c *Client) judge(op *operation, t *Try, f *wire.Frame) verdict {
	code := f.Head.Code
	v := verdict{goAway: code == wire.CodeGoAway}
	switch op.kind {
	case OpSend:
		r := ruleOfSend(code, f.Head.Remark)
		v.end, v.final = r.end, !r.retry
		if r.end == TryDone || r.end == TryUnproven {
			op.takeStored(t, f)
		}
	case OpCreateTopic:
		v = op.judgeCreate(t, code, f.Head.Remark)
	case OpCommit:
		v = judgeCommit(code)
	default:
		v = c.judgeRead(op, f)
	}
	v.goAway = code == wire.CodeGoAway
	return v
}

// takeStored notes where the message was stored. A success without a readable
// header is a success all the same; its place is then not known.
func (op *operation) takeStored(t *Try, f *wire.Frame) {
	h, err := f.SendResponse()
	if err != nil {
		return
	}
	t.Queue = h.QueueID
	op.out.Offset, op.out.MsgID, op.out.Log = h.QueueOffset, strings.Clone(h.MsgID), logOf(h.MsgID)
	if f.SendOK != nil && f.SendOK.MsgID == "" { // the text was made just now
		op.out.MsgID = h.MsgID
	}
	op.out.Durability = durabilityOf(h.Durability)
}

// durabilityOf returns a known text without keeping the frame's buffer alive, ""
// for any other.
func durabilityOf(text string) string {
	for _, d := range [...]string{wire.DurabilityLocal, wire.DurabilityReceived, wire.DurabilityReplicated} {
		if text == d {
			return d
		}
	}
	return ""
}

// logOf is the commit log offset in an offset message id, -1 without one.
func logOf(id string) ha.LogOffset {
	_, log, err := storage.ParseMessageID(id)
	if err != nil {
		return -1
	}
	return log
}
