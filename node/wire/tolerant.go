package wire

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The reader of fastjson's dialect (wire contracts 1.6). Beyond JSON it takes
// single quotes, keys without quotes (also numbers), objects as keys, trailing
// commas and control characters in texts. It builds a tree of small nodes; sizes
// are bounded by the limits below before memory is spent.

// Limits of one JSON text.
const (
	MaxJSONDepth  = 64      // nested objects and arrays
	MaxJSONValues = 1 << 19 // nodes, keys included
	MaxJSONBytes  = MaxFrameBytes
)

// nodeKind is what a node is.
type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeBool
	nodeNumber
	nodeText
	nodeArray
	nodeObject
)

// String names the kind for error texts.
func (k nodeKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a text", "an array", "an object"}[k%6]
}

// node is one JSON value. An object's kids alternate key and value; keys are
// texts, or objects.
type node struct {
	kind nodeKind
	text string // content of texts, spelling of numbers and booleans
	kids []node
}

// member returns the last value under key.
func (n *node) member(key string) *node {
	for i := len(n.kids) - 2; i >= 0 && n.kind == nodeObject; i -= 2 {
		if n.kids[i].kind == nodeText && n.kids[i].text == key {
			return &n.kids[i+1]
		}
	}
	return nil
}

// parser walks one text.
type parser struct {
	in    []byte
	pos   int
	count int // nodes made
}

// parseTolerant reads one value and refuses anything but blanks after it.
func parseTolerant(in []byte) (node, error) {
	if len(in) > MaxJSONBytes {
		return node{}, fmt.Errorf("JSON of %d bytes: the limit is %d", len(in), MaxJSONBytes)
	}
	p := parser{in: in}
	n, err := p.value(0)
	if err != nil {
		return node{}, err
	}
	if p.blank(); p.pos != len(in) {
		return node{}, p.failed("nothing more after the value")
	}
	return n, nil
}

func (p *parser) failed(want string) error {
	if p.pos >= len(p.in) {
		return fmt.Errorf("JSON ends at byte %d, want %s", len(p.in), want)
	}
	return fmt.Errorf("JSON at byte %d is %q, want %s", p.pos, cutText(string(p.in[p.pos:min(p.pos+maxErrorText, len(p.in))])), want)
}

func (p *parser) blank() {
	for p.pos < len(p.in) {
		switch p.in[p.pos] {
		case ' ', '\t', '\n', '\r', '\f', '\b':
			p.pos++
		default:
			return
		}
	}
}

// peek is the next byte that is not blank; 0 at the end.
func (p *parser) peek() byte {
	if p.blank(); p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return 0
}

// admit counts a node against the limits.
func (p *parser) admit(depth int) error {
	if p.count++; p.count > MaxJSONValues {
		return fmt.Errorf("JSON at byte %d: more than %d values", p.pos, MaxJSONValues)
	}
	if depth > MaxJSONDepth {
		return fmt.Errorf("JSON at byte %d: nested deeper than %d", p.pos, MaxJSONDepth)
	}
	return nil
}

func (p *parser) value(depth int) (node, error) {
	if err := p.admit(depth); err != nil {
		return node{}, err
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"' || c == '\'':
		s, err := p.quoted(c)
		return node{kind: nodeText, text: s}, err
	case c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9':
		return p.number()
	default:
		return p.word()
	}
}

func (p *parser) object(depth int) (node, error) {
	n := node{kind: nodeObject}
	p.pos++ // {
	for {
		if p.peek() == '}' {
			p.pos++
			return n, nil
		}
		key, err := p.key(depth + 1)
		if err != nil {
			return n, err
		}
		if p.peek() != ':' {
			return n, p.failed("a colon")
		}
		p.pos++
		val, err := p.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.kids = append(n.kids, key, val)
		if err := p.separator('}'); err != nil {
			return n, err
		}
	}
}

// separator consumes a comma, or leaves the closing byte for the caller.
func (p *parser) separator(closing byte) error {
	switch p.peek() {
	case ',':
		p.pos++
		return nil
	case closing:
		return nil
	}
	return p.failed("a comma or " + string(rune(closing)))
}

// key reads a key: quoted, an object, or bare up to the colon.
func (p *parser) key(depth int) (node, error) {
	switch c := p.peek(); c {
	case '{':
		return p.value(depth)
	case '"', '\'':
		return p.value(depth)
	}
	start := p.pos
	for p.pos < len(p.in) && bareKeyByte(p.in[p.pos]) {
		p.pos++
	}
	if p.pos == start {
		return node{}, p.failed("a key")
	}
	err := p.admit(depth)
	return node{kind: nodeText, text: validText(p.in[start:p.pos])}, err
}

func bareKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '_' || c == '$' || c == '-' || c == '+' || c == '.' || c == '@' || c >= utf8.RuneSelf
}

func (p *parser) array(depth int) (node, error) {
	n := node{kind: nodeArray}
	p.pos++ // [
	for {
		if p.peek() == ']' {
			p.pos++
			return n, nil
		}
		val, err := p.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.kids = append(n.kids, val)
		if err := p.separator(']'); err != nil {
			return n, err
		}
	}
}

// number keeps the spelling; its use decides what it must look like and how large it
// may be.
func (p *parser) number() (node, error) {
	start := p.pos
	for p.pos < len(p.in) {
		c := p.in[p.pos]
		if c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9') {
			break
		}
		p.pos++
	}
	text := string(p.in[start:p.pos])
	if _, err := strconv.ParseFloat(text, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		p.pos = start
		return node{}, p.failed("a number")
	}
	return node{kind: nodeNumber, text: text}, nil
}

func (p *parser) word() (node, error) {
	start := p.pos
	for p.pos < len(p.in) && bareKeyByte(p.in[p.pos]) {
		p.pos++
	}
	switch text := string(p.in[start:p.pos]); text {
	case "true", "false":
		return node{kind: nodeBool, text: text}, nil
	case "null", "undefined", "NaN":
		return node{}, nil
	}
	p.pos = start
	return node{}, p.failed("a value")
}

// quoted reads a text that begins with the quote at pos. Without escapes it is
// copied once; bytes that are no UTF-8 become U+FFFD.
func (p *parser) quoted(quote byte) (string, error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.in) && p.in[p.pos] != quote {
		if p.in[p.pos] == '\\' {
			return p.escaped(quote, start)
		}
		p.pos++
	}
	if p.pos >= len(p.in) {
		return "", p.failed("the end of a text")
	}
	p.pos++
	return validText(p.in[start : p.pos-1]), nil
}

// escaped continues quoted at its first backslash.
func (p *parser) escaped(quote byte, start int) (string, error) {
	out := append([]byte(nil), p.in[start:p.pos]...)
	for p.pos < len(p.in) {
		c := p.in[p.pos]
		if c == quote {
			p.pos++
			return validText(out), nil
		}
		if c != '\\' {
			out = append(out, c)
			p.pos++
			continue
		}
		var n int
		out, n = appendUnescaped(out, p.in[p.pos:])
		if n == 0 {
			return "", p.failed("an escape sequence")
		}
		p.pos += n
	}
	return "", p.failed("the end of a text")
}

// appendUnescaped appends the character that the escape at the start of in means
// and returns the length of the escape; 0 when it is none.
func appendUnescaped(out, in []byte) ([]byte, int) {
	if len(in) < 2 {
		return out, 0
	}
	switch c := in[1]; c {
	case 'n':
		return append(out, '\n'), 2
	case 't':
		return append(out, '\t'), 2
	case 'r':
		return append(out, '\r'), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f', 'F':
		return append(out, '\f'), 2
	case 'v':
		return append(out, '\v'), 2
	case '"', '\'', '\\', '/':
		return append(out, c), 2
	case 'x':
		if r, ok := hexRune(in, 2, 2); ok {
			return utf8.AppendRune(out, r), 4
		}
	case 'u':
		if r, ok := hexRune(in, 2, 4); ok {
			return appendUTF16(out, in, r)
		}
	}
	return out, 0
}

// appendUTF16 appends the character of a \u escape, taking a second escape when
// the first is half of a pair.
func appendUTF16(out, in []byte, r rune) ([]byte, int) {
	if utf16.IsSurrogate(r) && len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
		if low, ok := hexRune(in, 8, 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), 12
			}
		}
	}
	return utf8.AppendRune(out, r), 6 // half a pair becomes U+FFFD
}

func hexRune(in []byte, at, digits int) (rune, bool) {
	if len(in) < at+digits {
		return 0, false
	}
	var r rune
	for _, c := range in[at : at+digits] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// validText copies b; each byte that is no UTF-8 becomes U+FFFD.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return string(out)
}
