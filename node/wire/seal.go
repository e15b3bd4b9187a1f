package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"unicode/utf8"
)

// The seal of a remoting frame is CRC-32C over code, opaque, flag and version
// (four bytes each), the remark, every header field except the seal itself in
// the order of names, and the body; texts are preceded by their length in four
// bytes. It is written as eight lower-case hex digits in the field sealKey. The
// language is left out because the binary header cannot carry every name.
const sealKey = "lsCrc"

// errSeal is a sealed frame whose bytes changed on the way.
var errSeal = errors.New("the seal (lsCrc) does not match: bytes were damaged on the way")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sealHead(h *Head) uint32 {
	var b [16]byte
	binary.BigEndian.PutUint32(b[0:], uint32(h.Code))
	binary.BigEndian.PutUint32(b[4:], uint32(h.Opaque))
	binary.BigEndian.PutUint32(b[8:], uint32(h.Flag))
	binary.BigEndian.PutUint32(b[12:], uint32(h.Version))
	return sealTextPart(crc32.Update(0, castagnoli, b[:]), h.Remark)
}

// sealTextPart sums a text as the far end will read it: bytes that are no UTF-8
// arrive as U+FFFD.
func sealTextPart(sum uint32, s string) uint32 {
	if !utf8.ValidString(s) {
		s = validText([]byte(s))
	}
	return sealBytesPart(sum, bytesOf(s))
}

func sealBytesPart(sum uint32, b []byte) uint32 {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(b)))
	return crc32.Update(crc32.Update(sum, castagnoli, n[:]), castagnoli, b)
}

func sealField(sum uint32, key, value string) uint32 {
	return sealTextPart(sealTextPart(sum, key), value)
}

func sealFieldBytes(sum uint32, key string, value []byte) uint32 {
	return sealBytesPart(sealTextPart(sum, key), value)
}

func sealExt(sum uint32, ext Ext) uint32 {
	var room [48]Field
	for _, f := range sortedByKey(ext, &room) {
		if f.Key != sealKey {
			sum = sealField(sum, f.Key, f.Value)
		}
	}
	return sum
}

func sealBody(sum uint32, body []byte) uint32 { return sealBytesPart(sum, body) }

func sealText(out *[8]byte, sum uint32) []byte {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], sum)
	hex.Encode(out[:], b[:])
	return out[:]
}

// checkSeal verifies the seal among fields, if there is one, and returns the
// fields without it and whether there was one.
func checkSeal(h *Head, fields []Field, body []byte) (rest []Field, sealed bool, err error) {
	at := -1
	for i := range fields {
		if fields[i].Key == sealKey {
			at = i
		}
	}
	if at < 0 {
		return fields, false, nil
	}
	var text [8]byte
	sum := sealBody(sealExt(sealHead(h), fields), body)
	if string(sealText(&text, sum)) != fields[at].Value {
		return fields, false, errSeal
	}
	return append(fields[:at], fields[at+1:]...), true, nil
}
