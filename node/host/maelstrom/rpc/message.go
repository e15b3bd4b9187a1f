package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Message is one line of the protocol.
type Message struct {
	Src  string          `json:"src,omitempty"`
	Dest string          `json:"dest,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`

	head MessageBody // of a message that was read
}

// MessageBody holds the reserved keys of a body.
type MessageBody struct {
	Type      string `json:"type,omitempty"`
	MsgID     int64  `json:"msg_id,omitempty"`
	InReplyTo int64  `json:"in_reply_to,omitempty"`
	Code      int    `json:"code,omitempty"` // of an error
	Text      string `json:"text,omitempty"` // of an error

	asks    bool // msg_id is there: an answer can be sent
	answers bool // in_reply_to is there: it must not be answered
}

// Type is the type of the message, "" when it has none.
func (m *Message) Type() string {
	if m.head.Type != "" {
		return m.head.Type
	}
	var b MessageBody
	if json.Unmarshal(m.Body, &b) != nil {
		return ""
	}
	return b.Type
}

// Asks reports whether the message can be answered: it has a msg_id and is itself
// neither an answer nor an error.
func (m *Message) Asks() bool { return m.head.asks && !m.head.answers && m.head.Type != "error" }

// RPCError returns the error that the message is, or nil.
func (m *Message) RPCError() *RPCError {
	var b MessageBody
	if json.Unmarshal(m.Body, &b) != nil || b.Type != "error" {
		return nil
	}
	return NewRPCError(b.Code, b.Text)
}

// Decode reads the body into v. Numbers that fit no field, missing braces and
// wrong types are a MalformedRequest that names the field.
func (m *Message) Decode(v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return NewRPCError(MalformedRequest, fmt.Sprintf("the body of %q does not decode: %v", m.head.Type, err))
	}
	return nil
}

// parseHead reads the reserved keys one by one, so that one of them being
// nonsense does not hide the others. flaw says what is wrong with the request.
func parseHead(body json.RawMessage) (h MessageBody, flaw string) {
	var raw struct {
		Type      json.RawMessage `json:"type"`
		MsgID     json.RawMessage `json:"msg_id"`
		InReplyTo json.RawMessage `json:"in_reply_to"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return h, "the body is no object"
	}
	read := func(from json.RawMessage, to any) bool {
		return len(from) > 0 && !bytes.Equal(from, []byte("null")) && json.Unmarshal(from, to) == nil
	}
	h.asks = read(raw.MsgID, &h.MsgID)
	h.answers = len(raw.InReplyTo) > 0 && !bytes.Equal(raw.InReplyTo, []byte("null"))
	if h.answers && !read(raw.InReplyTo, &h.InReplyTo) {
		return h, "in_reply_to is no integer"
	}
	if !read(raw.Type, &h.Type) || h.Type == "" {
		return h, "the body has no type"
	}
	return h, ""
}
