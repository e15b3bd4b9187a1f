package maelstrom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// MaxLine is the longest line of a node, in bytes.
const MaxLine = 64 << 20

// Message is one message on the network.
type Message struct {
	ID   int64
	Src  string
	Dest string
	Body json.RawMessage

	sent   time.Duration
	due    time.Duration // when the receiver may have it
	record int64         // its number in the journal; below 0: not kept
	starts bool          // of the client that initialises its receiver
}

// parseLine reads one line of a node's stdout, as strictly as Maelstrom: a JSON
// object of src, dest, body and perhaps id.
func parseLine(line []byte) (*Message, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var e struct {
		ID   json.RawMessage `json:"id"`
		Src  *string         `json:"src"`
		Dest *string         `json:"dest"`
		Body json.RawMessage `json:"body"`
	}
	if err := d.Decode(&e); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value in a line")
	}
	switch {
	case e.Src == nil:
		return nil, errors.New("src is missing")
	case e.Dest == nil:
		return nil, errors.New("dest is missing")
	case len(e.Body) == 0 || e.Body[0] != '{':
		return nil, errors.New("body is not an object")
	}
	if e.ID != nil {
		if _, err := strconv.ParseInt(string(e.ID), 10, 64); err != nil {
			return nil, fmt.Errorf("id %s is not an integer", e.ID)
		}
	}
	return &Message{Src: *e.Src, Dest: *e.Dest, Body: e.Body, record: -1}, nil
}

// line is the message as a node reads it.
func (m *Message) line(buf []byte) []byte {
	buf = append(buf, `{"id":`...)
	buf = strconv.AppendInt(buf, m.ID, 10)
	buf = append(buf, `,"src":`...)
	buf = appendString(buf, m.Src)
	buf = append(buf, `,"dest":`...)
	buf = appendString(buf, m.Dest)
	buf = append(buf, `,"body":`...)
	buf = append(buf, m.Body...)
	return append(buf, '}', '\n')
}

// appendString appends a string as JSON. Names need no escaping, as a rule.
func appendString(buf []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return append(buf, text...)
}

// head is what every body may have.
type head struct {
	Type      string `json:"type"`
	MsgID     *int64 `json:"msg_id"`
	InReplyTo *int64 `json:"in_reply_to"`
}

func (m *Message) head() (head, error) {
	var h head
	err := json.Unmarshal(m.Body, &h)
	return h, err
}

// maxQuote is how much of a bad line is shown.
const maxQuote = 200

func quote(line []byte) string {
	if len(line) > maxQuote {
		return fmt.Sprintf("%q…", line[:maxQuote])
	}
	return fmt.Sprintf("%q", bytes.TrimRight(line, "\n"))
}
