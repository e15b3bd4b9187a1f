package client

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"lockstep/node/wire"
	"lockstep/storage"
)

// Compression of bodies in SYSFLAG bits 8–10 (wire contracts 4.2). 0 is what
// clients write that know no other than zlib.
const (
	compressionMask = 0x700
	compressionZlib = 3 << 8
)

// maxInflated bounds one body after decompression.
const maxInflated = wire.MaxFrameBytes

// decodeMessages splits the body of a pull answer. Every message is checked
// against its own checksum before any of them is believed.
func decodeMessages(body []byte, broker string) ([]Received, error) {
	out := make([]Received, 0, countMessages(body))
	for at := 0; at < len(body); {
		if len(body)-at < storage.MinRecord {
			return nil, fmt.Errorf("pulled messages: %d bytes left at %d, less than a message", len(body)-at, at)
		}
		size := int64(binary.BigEndian.Uint32(body[at:]))
		if size < storage.MinRecord || size > int64(len(body)-at) {
			return nil, fmt.Errorf("pulled messages: size %d at %d of %d bytes", size, at, len(body))
		}
		rec, why := storage.DecodeRecord(body[at : at+int(size)])
		if why != "" {
			return nil, fmt.Errorf("pulled messages: at %d: %s", at, why)
		}
		m, err := received(&rec, broker)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
		at += int(size)
	}
	return out, nil
}

// countMessages counts by their sizes alone; what is wrong with one is found later.
func countMessages(body []byte) int {
	n := 0
	for len(body) >= storage.MinRecord && n < maxPullBatch {
		size := int64(binary.BigEndian.Uint32(body))
		if size < storage.MinRecord || size > int64(len(body)) {
			break
		}
		body = body[size:]
		n++
	}
	return n
}

func received(rec *storage.Record, broker string) (Received, error) {
	m := Received{Topic: string(rec.Topic), Broker: broker, Queue: rec.QueueID, QueueOffset: rec.QueueOffset, Log: rec.Physical,
		Body: rec.Body, BornMillis: rec.BornMillis, StoreMillis: rec.StoreMillis, ReconsumeTimes: rec.ReconsumeTimes}
	if storage.CRC(rec.Body) != rec.BodyCRC {
		return m, fmt.Errorf("pulled message at log offset %d: the body does not match its checksum", rec.Physical)
	}
	m.Properties = propertiesOf(rec.Properties)
	m.Key, _ = m.Property(propUniqKey)
	m.Tag, _ = m.Property(storage.PropTags)
	if rec.SysFlag&storage.FlagCompressed == 0 {
		return m, nil
	}
	if kind := rec.SysFlag & compressionMask; kind != 0 && kind != compressionZlib {
		return m, fmt.Errorf("pulled message at log offset %d: compression type %d is not known; zlib is", rec.Physical, kind>>8)
	}
	var err error
	if m.Body, err = inflate(rec.Body); err != nil {
		return m, fmt.Errorf("pulled message at log offset %d: %w", rec.Physical, err)
	}
	return m, nil
}

// propertiesOf splits a properties text. All names and values are parts of one
// string.
func propertiesOf(text []byte) []Property {
	out := make([]Property, 0, bytes.Count(text, []byte{storage.NameValueSeparator}))
	whole := string(text)
	for rest := text; len(rest) > 0; {
		at := len(text) - len(rest)
		var name, value []byte
		var good bool
		if name, value, rest, good = storage.NextProperty(rest); good {
			mid := at + len(name)
			out = append(out, Property{whole[at:mid], whole[mid+1 : mid+1+len(value)]})
		}
	}
	return out
}

func inflate(b []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("compressed body: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err != nil {
		return nil, fmt.Errorf("compressed body: %w", err)
	}
	if len(out) > maxInflated {
		return nil, fmt.Errorf("compressed body: more than %d bytes", maxInflated)
	}
	return out, nil
}

// tagsOf splits a subscription expression; nil means everything.
func tagsOf(expression string) []string {
	if strings.TrimSpace(expression) == "" || strings.TrimSpace(expression) == "*" {
		return nil
	}
	var out []string
	for _, t := range strings.Split(expression, "||") {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// matching keeps the messages whose tag is wanted: brokers compare hashes only.
func matching(messages []Received, expression string) []Received {
	tags := tagsOf(expression)
	if tags == nil {
		return messages
	}
	kept := messages[:0]
	for _, m := range messages {
		for _, t := range tags {
			if m.Tag == t {
				kept = append(kept, m)
				break
			}
		}
	}
	return kept
}
