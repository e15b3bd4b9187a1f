package bench

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"lockstep/node/wire"
)

const (
	// topic of the load and how many queues it has.
	topic  = "Bench"
	queues = 8
	// bodyBytes of each message.
	bodyBytes = 1024
	// firstOpaque begins the request numbers: all have the same number of digits, so
	// that a request is made by writing digits into a copy of the last one.
	firstOpaque = 1_000_000_000
	maxOpaque   = 2_147_483_647
	digits      = 10
)

// template is an encoded send whose request number and key are still to be filled.
type template struct {
	bytes []byte
	holes []int // where the digits of the request number are
}

// newTemplate encodes a send (code 310) as stock clients do, with a JSON header.
func newTemplate(queue int32) (template, error) {
	mark := strconv.Itoa(maxOpaque)
	head := &wire.SendMessageRequest{ProducerGroup: "bench", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4,
		QueueID: queue, BornTimestamp: 1_700_000_000_000, BrokerName: "",
		Properties: "UNIQ_KEY\x017F0000010001" + strings.Repeat("0", 10) + mark + "\x02WAIT\x01true\x02"}
	f := wire.NewRequest(wire.ReqSendMessageV2, maxOpaque, head, bytes.Repeat([]byte{'x'}, bodyBytes))
	raw, err := wire.AppendFrame(nil, &f, wire.JSON)
	if err != nil {
		return template{}, err
	}
	t := template{bytes: raw}
	for at := 0; ; {
		i := bytes.Index(raw[at:], []byte(mark))
		if i < 0 {
			break
		}
		t.holes = append(t.holes, at+i)
		at += i + digits
	}
	if len(t.holes) != 2 {
		return template{}, fmt.Errorf("a send has its number %d times, not twice", len(t.holes))
	}
	return t, nil
}

// appendTo appends the send with a request number.
func (t *template) appendTo(dst []byte, opaque int32) []byte {
	at := len(dst)
	dst = append(dst, t.bytes...)
	for _, h := range t.holes {
		v := opaque
		for i := digits - 1; i >= 0; i-- {
			dst[at+h+i] = byte('0' + v%10)
			v /= 10
		}
	}
	return dst
}

// member reads a number of a JSON header without decoding it.
func member(head []byte, name string) (int64, bool) {
	i := bytes.Index(head, []byte(name))
	if i < 0 {
		return 0, false
	}
	v, any := int64(0), false
	for _, c := range head[i+len(name):] {
		if c < '0' || c > '9' {
			break
		}
		v, any = v*10+int64(c-'0'), true
	}
	return v, any
}
