package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// HeaderEncoding is how a remoting header is written; readers take either.
type HeaderEncoding uint8

// The encodings, by the number in the frame.
const (
	JSON   HeaderEncoding = 0
	Binary HeaderEncoding = 1
)

// String names the encoding as RocketMQ's configuration does.
func (e HeaderEncoding) String() string { return [...]string{"JSON", "ROCKETMQ"}[e%2] }

// AppendFrame appends f's bytes to dst. enc matters for remoting frames only. On
// error dst comes back as it was; the error says which limit or rule f breaks.
// The hot typed forms allocate nothing beyond dst.
func AppendFrame(dst []byte, f *Frame, enc HeaderEncoding) ([]byte, error) {
	start := len(dst)
	var err error
	switch f.Link {
	case Remoting:
		dst, err = appendRemoting(dst, f, enc)
	case Replication:
		dst, err = appendReplication(dst, f)
	case Raft:
		dst, err = appendRaft(dst, f)
	default:
		err = fmt.Errorf("link %d is unknown", uint8(f.Link))
	}
	if err != nil {
		return dst[:start], fmt.Errorf("encode %v frame: %w", f.Link, err)
	}
	return dst, nil
}

func appendRemoting(dst []byte, f *Frame, enc HeaderEncoding) ([]byte, error) {
	if len(f.Head.Ext) > MaxExtFields {
		return dst, fmt.Errorf("%d header fields: the limit is %d", len(f.Head.Ext), MaxExtFields)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(enc), 0, 0, 0)
	switch enc {
	case JSON:
		dst = appendJSONHeader(dst, f)
	case Binary:
		var err error
		if dst, err = appendBinaryHeader(dst, f); err != nil {
			return dst, err
		}
	default:
		return dst, fmt.Errorf("header encoding %d is unknown", uint8(enc))
	}
	header := len(dst) - start - 8
	size := 8 + header + len(f.Body)
	if header > MaxHeaderBytes {
		return dst, fmt.Errorf("header of %d bytes: the limit is %d", header, MaxHeaderBytes)
	}
	if size > MaxFrameBytes {
		return dst, fmt.Errorf("frame of %d bytes: the limit is %d", size, MaxFrameBytes)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(size-4))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(enc)<<24|uint32(header))
	return append(dst, f.Body...), nil
}

// appendJSONHeader writes the members in a fixed order, without blanks.
func appendJSONHeader(dst []byte, f *Frame) []byte {
	h := &f.Head
	w := fieldWriter{dst: append(dst, `{"code":`...)}
	w.int(int64(h.Code))
	w.dst = append(w.dst, `,"language":`...)
	w.dst = appendJSONText(w.dst, h.Language)
	w.dst = append(w.dst, `,"version":`...)
	w.int(int64(h.Version))
	w.dst = append(w.dst, `,"opaque":`...)
	w.int(int64(h.Opaque))
	w.dst = append(w.dst, `,"flag":`...)
	w.int(int64(h.wireFlag()))
	if h.Remark != "" {
		w.dst = append(w.dst, `,"remark":`...)
		w.dst = appendJSONText(w.dst, h.Remark)
	}
	w.writeFields(f)
	if w.count > 0 {
		w.dst = append(w.dst, '}')
	}
	return append(w.dst, '}')
}

// appendBinaryHeader writes RocketMQ's binary header (wire contracts 1.4).
func appendBinaryHeader(dst []byte, f *Frame) ([]byte, error) {
	h := &f.Head
	if h.Code < math.MinInt16 || h.Code > math.MaxInt16 {
		return dst, fmt.Errorf("code %d does not fit the binary header: use the JSON header", h.Code)
	}
	if h.Version < math.MinInt16 || h.Version > math.MaxInt16 {
		return dst, fmt.Errorf("version %d does not fit the binary header", h.Version)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Code))
	dst = append(dst, languageNumber(h.Language))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.wireFlag()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Remark)))
	dst = append(dst, h.Remark...)
	at := len(dst)
	w := fieldWriter{dst: append(dst, 0, 0, 0, 0), binary: true}
	w.writeFields(f)
	if w.long != "" {
		return w.dst, fmt.Errorf("header field %q: names of more than %d bytes do not fit the binary header", cutText(w.long), math.MaxInt16)
	}
	binary.BigEndian.PutUint32(w.dst[at:], uint32(len(w.dst)-at-4))
	return w.dst, nil
}

func appendRaft(dst []byte, f *Frame) ([]byte, error) {
	if size := raftPrefix + len(f.Body); size > MaxFrameBytes {
		return dst, fmt.Errorf("frame of %d bytes: the limit is %d", size, MaxFrameBytes)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(f.Body)))
	dst = binary.BigEndian.AppendUint32(dst, raftSum(f.Body))
	return append(dst, f.Body...), nil
}
