package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// treeHead reads a JSON header of any dialect. A header without a code is
// refused; every other member may be missing.
func (d *Decoder) treeHead(raw []byte, h *Head) ([]Field, error) {
	root, err := parseTolerant(raw)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if root.kind != nodeObject {
		return nil, fmt.Errorf("header: want an object, have %v", root.kind)
	}
	d.fields = d.fields[:0]
	hasCode := false
	for i := 0; i < len(root.kids); i += 2 {
		key, val := root.kids[i].text, &root.kids[i+1]
		if err := d.member(h, key, val); err != nil {
			return nil, fmt.Errorf("header member %q: %w", cutText(key), err)
		}
		hasCode = hasCode || key == "code" && val.kind != nodeNull
	}
	if !hasCode {
		return nil, fmt.Errorf("header has no code")
	}
	return d.fields, nil
}

func (d *Decoder) member(h *Head, key string, val *node) error {
	switch key {
	case "code":
		return intMember(&h.Code, val)
	case "version":
		return intMember(&h.Version, val)
	case "opaque":
		return intMember(&h.Opaque, val)
	case "flag":
		return intMember(&h.Flag, val)
	case "language":
		return textMember(&h.Language, val)
	case "remark":
		return textMember(&h.Remark, val)
	case "extFields":
		return d.extMember(val)
	}
	return nil
}

func intMember(to *int32, val *node) error {
	switch val.kind {
	case nodeNull:
		*to = 0
		return nil
	case nodeNumber, nodeText:
		n, err := strconv.ParseInt(val.text, 10, 32)
		if err != nil {
			return fmt.Errorf("want a whole number of 32 bits, have %q", cutText(val.text))
		}
		*to = int32(n)
		return nil
	}
	return wrongKind("a number", val)
}

func textMember(to *string, val *node) error {
	if val.kind == nodeArray || val.kind == nodeObject {
		return wrongKind("a text", val)
	}
	*to = val.text
	return nil
}

// extMember reads extFields; a null value is an absent field.
func (d *Decoder) extMember(val *node) error {
	if val.kind == nodeNull {
		return nil
	}
	if val.kind != nodeObject {
		return wrongKind("an object", val)
	}
	for i := 0; i < len(val.kids); i += 2 {
		key, v := &val.kids[i], &val.kids[i+1]
		if v.kind == nodeNull {
			continue
		}
		if key.kind != nodeText || v.kind == nodeArray || v.kind == nodeObject {
			return fmt.Errorf("field %q is %v: want a text", cutText(key.text), v.kind)
		}
		if len(d.fields) == MaxExtFields {
			return fmt.Errorf("more than %d fields", MaxExtFields)
		}
		d.fields = append(d.fields, Field{key.text, v.text})
	}
	return nil
}

// binaryFixed is the size of a binary header without remark and fields.
const binaryFixed = 21

// binaryHeader reads RocketMQ's binary header (wire contracts 1.4).
func (d *Decoder) binaryHeader(raw []byte, h *Head) ([]Field, error) {
	if len(raw) < binaryFixed {
		return nil, fmt.Errorf("binary header of %d bytes: the least is %d", len(raw), binaryFixed)
	}
	h.Code = int32(int16(binary.BigEndian.Uint16(raw)))
	h.Language = languageName(raw[2])
	h.Version = int32(int16(binary.BigEndian.Uint16(raw[3:])))
	h.Opaque = int32(binary.BigEndian.Uint32(raw[5:]))
	h.Flag = int32(binary.BigEndian.Uint32(raw[9:]))
	rest := raw[13:]
	remark, rest, ok := cutLong(rest)
	if !ok || len(rest) < 4 {
		return nil, fmt.Errorf("binary header: the remark's length passes the end of the header")
	}
	h.Remark = alias(remark)
	ext, rest, ok := cutLong(rest)
	if !ok || len(rest) != 0 {
		return nil, fmt.Errorf("binary header: the fields' length is not the rest of the header")
	}
	d.fields = d.fields[:0]
	for len(ext) > 0 {
		var f Field
		if f, ext, ok = cutField(ext); !ok {
			return nil, fmt.Errorf("binary header: field %d passes the end of the header or has no name", len(d.fields))
		}
		if len(d.fields) == MaxExtFields {
			return nil, fmt.Errorf("binary header: more than %d fields", MaxExtFields)
		}
		d.fields = append(d.fields, f)
	}
	return d.fields, nil
}

// cutLong takes a 4-byte length and that many bytes off b.
func cutLong(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, false
	}
	return b[4 : 4+n], b[4+n:], true
}

// cutField takes one field off b.
func cutField(b []byte) (f Field, rest []byte, ok bool) {
	if len(b) < 2 {
		return f, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if n == 0 || n > 1<<15-1 || n > len(b)-2 {
		return f, nil, false
	}
	value, rest, ok := cutLong(b[2+n:])
	return Field{alias(b[2 : 2+n]), alias(value)}, rest, ok
}
