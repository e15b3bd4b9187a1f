package wire

import (
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
var errSeal = errors.New("the seal (lsCrc) is missing or does not match: bytes were damaged on the way")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sealHead(h *Head) uint32 {
	sum := sealWord(sealWord(0, uint32(h.Code)), uint32(h.Opaque))
	sum = sealWord(sealWord(sum, uint32(h.wireFlag())), uint32(h.Version))
	return sealTextPart(sum, h.Remark)
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
	return crc32.Update(sealWord(sum, uint32(len(b))), castagnoli, b)
}

// sealWord sums four bytes. crc32.Update would move them to the heap.
func sealWord(sum, n uint32) uint32 {
	sum = ^sum
	for shift := 24; shift >= 0; shift -= 8 {
		sum = castagnoli[byte(sum)^byte(n>>shift)] ^ sum>>8
	}
	return ^sum
}

func sealField(sum uint32, key, value string) uint32 {
	return sealTextPart(sealTextPart(sum, key), value)
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

// appendSeal appends a sum as eight lower-case hex digits.
func appendSeal(dst []byte, sum uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	return dst
}

// checkSeal verifies the seal and takes its traces off head and fields. A frame
// with only one of the two marks, flag bit and field, is damaged.
func checkSeal(h *Head, fields []Field, body []byte) ([]Field, error) {
	at := -1
	for i := range fields {
		if fields[i].Key == sealKey {
			at = i
		}
	}
	marked := h.Flag&flagSealed != 0
	if at < 0 && !marked {
		return fields, nil
	}
	if at < 0 || !marked {
		return fields, errSeal
	}
	h.Flag, h.Sealed = h.Flag&^flagSealed, true
	var text [8]byte
	sum := sealBytesPart(sealExt(sealHead(h), fields), body)
	if string(appendSeal(text[:0], sum)) != fields[at].Value {
		return fields, errSeal
	}
	return append(fields[:at], fields[at+1:]...), nil
}
