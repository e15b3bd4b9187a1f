package wire

import (
	"unicode/utf8"
	"unsafe" // tidy:import texts of a frame are parts of the buffer it owns, no copy a field
)

// alias is b as a text without a copy; bytes that are no UTF-8 cost a copy.
func alias(b []byte) string {
	if !utf8.Valid(b) {
		return validText(b)
	}
	return textOf(b)
}

// textOf is b, known to be UTF-8, as a text without a copy.
func textOf(b []byte) string {
	if len(b) == 0 {
		return "" // keeps no buffer alive
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// bytesOf is s as bytes without a copy; they must not be written.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
