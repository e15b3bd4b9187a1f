package wire

import "unicode/utf8"

// scanHead reads the JSON header every client writes, in one pass and without
// allocating: plain members, texts without surprises. ok is false for anything
// unusual; the caller then uses the tolerant reader, which must agree with this
// one wherever both read (FuzzHotHeader).
func (d *Decoder) scanHead(raw []byte, h *Head) (fields []Field, ok bool) {
	s := scanner{in: raw, d: d}
	d.fields = d.fields[:0]
	if !s.byte('{') {
		return nil, false
	}
	hasCode, hasExt := false, false
	for first := true; !s.byte('}'); first = false {
		if !first && !s.byte(',') {
			return nil, false
		}
		key, ok := s.key()
		if !ok {
			return nil, false
		}
		switch string(key) {
		case "code":
			h.Code, ok = s.int32()
			hasCode = true
		case "version":
			h.Version, ok = s.int32()
		case "opaque":
			h.Opaque, ok = s.int32()
		case "flag":
			h.Flag, ok = s.int32()
		case "language":
			h.Language, ok = s.language()
		case "remark":
			h.Remark, ok = s.remark()
		case "serializeTypeCurrentRPC":
			_, ok = s.text()
		case "extFields":
			ok = !hasExt && s.ext()
			hasExt = true
		default:
			return nil, false
		}
		if !ok {
			return nil, false
		}
	}
	s.blank()
	return d.fields, hasCode && s.pos == len(raw)
}

// scanner walks one header.
type scanner struct {
	in  []byte
	pos int
	d   *Decoder
}

func (s *scanner) blank() {
	for s.pos < len(s.in) && (s.in[s.pos] == ' ' || s.in[s.pos] == '\n' || s.in[s.pos] == '\t' || s.in[s.pos] == '\r') {
		s.pos++
	}
}

// byte consumes c after blanks.
func (s *scanner) byte(c byte) bool {
	s.blank()
	if s.pos < len(s.in) && s.in[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// plainByte marks the bytes that stand for themselves in a JSON text: ASCII
// without control characters, quote and backslash.
var plainByte = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// run skips plain bytes and returns the one that ends them; 0 at the end.
func (s *scanner) run() byte {
	pos := s.pos
	for pos < len(s.in) && plainByte[s.in[pos]] {
		pos++
	}
	s.pos = pos
	if pos < len(s.in) {
		return s.in[pos]
	}
	return 0
}

// key reads a quoted key without escapes and its colon.
func (s *scanner) key() ([]byte, bool) {
	if !s.byte('"') {
		return nil, false
	}
	start := s.pos
	if s.run() != '"' {
		return nil, false
	}
	key := s.in[start:s.pos]
	s.pos++
	return key, s.byte(':')
}

// int32 reads a plain whole number.
func (s *scanner) int32() (int32, bool) {
	s.blank()
	start := s.pos
	for s.pos < len(s.in) && (s.in[s.pos] == '-' || '0' <= s.in[s.pos] && s.in[s.pos] <= '9') {
		s.pos++
	}
	n, ok := plainInt(s.in[start:s.pos])
	if s.pos == len(s.in) || numberByte(s.in[s.pos]) || n != int64(int32(n)) {
		return 0, false
	}
	return int32(n), ok
}

// numberByte reports bytes that continue a number in the tolerant reader.
func numberByte(c byte) bool { return c == '+' || c == '.' || c == 'e' || c == 'E' }

// plainInt reads -?digits of at most 18 digits.
func plainInt[T string | []byte](b T) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	i := 0
	if neg {
		i = 1
	}
	if len(b) == i || len(b)-i > 18 {
		return 0, false
	}
	var n int64
	for ; i < len(b); i++ {
		if b[i] < '0' || b[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(b[i]-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// text reads a quoted text. Without escapes it is a part of the header's bytes.
func (s *scanner) text() (string, bool) {
	if !s.byte('"') {
		return "", false
	}
	start, escapes, ascii := s.pos, false, true
	for {
		switch c := s.run(); {
		case c == '"':
			raw := s.in[start:s.pos]
			s.pos++
			if escapes {
				return s.unescape(raw)
			}
			if ascii {
				return textOf(raw), true
			}
			return alias(raw), true
		case c == '\\':
			escapes = true
			s.pos += 2 // whatever is escaped, it does not end the text
		case c >= utf8.RuneSelf:
			ascii = false
			s.pos++
		default:
			return "", false
		}
	}
}

// unescape puts a text with escapes into the decoder's arena. An escape may grow
// by nothing: the longest, six bytes, means at most three.
func (s *scanner) unescape(raw []byte) (string, bool) {
	out := s.d.room(len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		var n int
		if out, n = appendUnescaped(out, raw[i:]); n == 0 {
			return "", false
		}
		i += n
	}
	s.d.arena = s.d.arena[:len(s.d.arena)+len(out)]
	return alias(out), true
}

func (s *scanner) language() (string, bool) {
	text, ok := s.text()
	for _, known := range languages {
		if text == known {
			return known, ok // keeps no part of the buffer alive
		}
	}
	return text, ok
}

// remark reads a text or null.
func (s *scanner) remark() (string, bool) {
	s.blank()
	if rest := s.in[s.pos:]; len(rest) > 4 && string(rest[:4]) == "null" && !bareKeyByte(rest[4]) {
		s.pos += 4
		return "", true
	}
	return s.text()
}

// ext reads an object of texts into the decoder's fields.
func (s *scanner) ext() bool {
	if !s.byte('{') {
		return false
	}
	for first := true; !s.byte('}'); first = false {
		if !first && !s.byte(',') {
			return false
		}
		key, ok := s.key()
		if !ok || len(s.d.fields) == MaxExtFields {
			return false
		}
		value, ok := s.text()
		if !ok {
			return false
		}
		s.d.fields = append(s.d.fields, Field{textOf(key), value})
	}
	return true
}
