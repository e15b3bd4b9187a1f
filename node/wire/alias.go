package wire

import (
	"unicode/utf8"
	"unsafe" // tidy:import texts of a frame are parts of the buffer it owns, no copy a field
)

// alias is b as a text without a copy; bytes that are no UTF-8 cost a copy.
func alias(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if !utf8.Valid(b) {
		return validText(b)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// bytesOf is s as bytes without a copy; they must not be written.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
