package storage

import (
	"bytes"
	"unicode/utf8"
)

// The separators of the properties text (wire contract 4.4). Neither can occur
// inside a name or a value: there is no escaping.
const (
	NameValueSeparator = 0x01
	PropertySeparator  = 0x02
)

// Property names that the store itself reads.
const (
	PropTags  = "TAGS"
	PropKeys  = "KEYS"
	PropDelay = "DELAY"
	// PropCRC names the property CRC, always the last property of its record.
	PropCRC = "__CRC32#"
)

// MaxProperties is the largest properties text in bytes: its stored length is a
// signed 16-bit number.
const MaxProperties = 32767

// AppendProperty appends one pair to a properties text. Calling it for each
// pair in order gives the text that RocketMQ's encoders write.
func AppendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, NameValueSeparator)
	dst = append(dst, value...)
	return append(dst, PropertySeparator)
}

// Property returns the value of name, the last one when it occurs more than
// once, as Java's decoder does. It does not allocate.
func Property(props []byte, name string) (value []byte, ok bool) {
	for len(props) > 0 {
		var n, v []byte
		var good bool
		n, v, props, good = NextProperty(props)
		if good && string(n) == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// NextProperty splits the first pair off a properties text. good is false for
// an entry Java's decoder skips: shorter than three bytes, or without both a
// name and a value. A missing final separator is accepted.
func NextProperty(props []byte) (name, value, rest []byte, good bool) {
	entry := props
	if i := bytes.IndexByte(props, PropertySeparator); i >= 0 {
		entry, rest = props[:i], props[i+1:]
	}
	name, value, good = bytes.Cut(entry, []byte{NameValueSeparator})
	if len(entry) < 3 || !good || len(name) == 0 || len(value) == 0 {
		return nil, nil, rest, false
	}
	return name, value, rest, true
}

// ValidProperty reports whether name and value survive a round trip through the
// properties text: non-empty UTF-8 without separators.
func ValidProperty(name, value string) bool {
	return validPart(name) && validPart(value)
}

func validPart(s string) bool {
	if s == "" || !utf8.ValidString(s) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] == NameValueSeparator || s[i] == PropertySeparator {
			return false
		}
	}
	return true
}

// TagHash is Java's String.hashCode of tag, sign-extended: what consume queues
// store and pull filters compare (wire contract 4.6). It is 0 for an empty tag.
// The hash runs over UTF-16 code units; bytes that are not UTF-8 count as
// U+FFFD, as Java's decoder makes of them.
func TagHash(tag []byte) int64 {
	var h int32
	for len(tag) > 0 {
		if tag[0] < utf8.RuneSelf {
			h = 31*h + int32(tag[0])
			tag = tag[1:]
			continue
		}
		r, n := utf8.DecodeRune(tag)
		tag = tag[n:]
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + 0xD800 + (r >> 10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + r
	}
	return int64(h)
}
