package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// UnmarshalBody reads a JSON body of any dialect into v, a pointer. Members that
// are missing or null keep the value they have in v; members that v does not
// name are skipped; numbers may be texts and the reverse. {"$ref":"$.a[0]"} is
// resolved. The error names the member.
func UnmarshalBody(body []byte, v any) error {
	rv := reflect.ValueOf(v).Elem()
	if len(body) == 0 {
		return fmt.Errorf("body %s: the body is empty", rv.Type().Name())
	}
	root, err := parseTolerant(body)
	if err != nil {
		return fmt.Errorf("body %s: %w", rv.Type().Name(), err)
	}
	a := assigner{root: &root}
	if err := a.assign(rv, &root); err != nil {
		return fmt.Errorf("body %s: %s: %w", rv.Type().Name(), a.where(), err)
	}
	return nil
}

// MaxReferences bounds the $ref of one body. What they repeat counts against
// MaxJSONValues.
const MaxReferences = 256

// assigner copies a tree into Go values.
type assigner struct {
	root *node
	path []string // where an error happened, innermost first
	refs int      // $ref resolved
	done int      // nodes assigned, repeated ones included
}

// where is the path of the error for its text.
func (a *assigner) where() string {
	if len(a.path) == 0 {
		return "$"
	}
	var b strings.Builder
	b.WriteString("$")
	for i := len(a.path) - 1; i >= 0; i-- {
		b.WriteString(a.path[i])
	}
	return b.String()
}

// in runs assign below a path element.
func (a *assigner) in(element string, v reflect.Value, n *node) error {
	err := a.assign(v, n)
	if err != nil {
		a.path = append(a.path, element)
	}
	return err
}

func (a *assigner) assign(v reflect.Value, n *node) error {
	if a.done++; a.done > MaxJSONValues {
		return fmt.Errorf("more than %d values with references resolved", MaxJSONValues)
	}
	n, err := a.resolve(n)
	if err != nil || n.kind == nodeNull {
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if err := a.assign(p.Elem(), n); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case reflect.Struct:
		return a.object(v, n)
	case reflect.Map:
		return a.table(v, n)
	case reflect.Slice:
		return a.list(v, n)
	}
	return scalar(v, n)
}

// resolve follows a reference, once: a reference to a reference is null.
func (a *assigner) resolve(n *node) (*node, error) {
	ref := n.member("$ref")
	if n.kind != nodeObject || len(n.kids) != 2 || ref == nil || ref.kind != nodeText {
		return n, nil
	}
	if a.refs++; a.refs > MaxReferences {
		return nil, fmt.Errorf("more than %d references", MaxReferences)
	}
	target := a.root.at(ref.text)
	if target == nil || target.member("$ref") != nil {
		return &node{}, nil
	}
	return target, nil
}

// at finds the node of a path such as $.a.b[0]; nil when there is none.
func (n *node) at(path string) *node {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok || rest == "" {
		return nil // the root itself would nest without end
	}
	for n != nil && rest != "" {
		switch rest[0] {
		case '.':
			rest = rest[1:]
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			n, rest = n.member(rest[:end]), rest[end:]
		case '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil
			}
			i, err := strconv.Atoi(rest[1:end])
			if err != nil || n.kind != nodeArray || i < 0 || i >= len(n.kids) {
				return nil
			}
			n, rest = &n.kids[i], rest[end+1:]
		default:
			return nil
		}
	}
	return n
}

func (a *assigner) object(v reflect.Value, n *node) error {
	if n.kind != nodeObject {
		return wrongKind("an object", n)
	}
	fields := bodyFields(v.Type())
	for i := 0; i < len(n.kids); i += 2 {
		key := &n.kids[i]
		f := findField(fields, key.text)
		if key.kind != nodeText || f == nil {
			continue
		}
		if err := a.in("."+key.text, v.Field(f.index), &n.kids[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (a *assigner) table(v reflect.Value, n *node) error {
	if n.kind != nodeObject {
		return wrongKind("an object", n)
	}
	t := v.Type()
	out := reflect.MakeMapWithSize(t, min(len(n.kids)/2, 1024))
	for i := 0; i < len(n.kids); i += 2 {
		key := reflect.New(t.Key()).Elem()
		val := reflect.New(t.Elem()).Elem()
		name := "[" + cutText(n.kids[i].text) + "]"
		if err := a.key(key, &n.kids[i]); err != nil {
			a.path = append(a.path, name)
			return err
		}
		if err := a.in(name, val, &n.kids[i+1]); err != nil {
			return err
		}
		out.SetMapIndex(key, val)
	}
	v.Set(out)
	return nil
}

// key reads a map key. An object key may also be a text that holds the object.
func (a *assigner) key(v reflect.Value, n *node) error {
	if v.Kind() != reflect.Struct {
		if n.kind != nodeText {
			return wrongKind("a plain key", n)
		}
		return scalar(v, n)
	}
	if n.kind == nodeText {
		inner, err := parseTolerant([]byte(n.text))
		if err != nil {
			return err
		}
		n = &inner
	}
	return a.object(v, n)
}

func (a *assigner) list(v reflect.Value, n *node) error {
	if n.kind != nodeArray {
		return wrongKind("an array", n)
	}
	out := reflect.MakeSlice(v.Type(), len(n.kids), len(n.kids))
	for i := range n.kids {
		if err := a.assign(out.Index(i), &n.kids[i]); err != nil {
			a.path = append(a.path, "["+strconv.Itoa(i)+"]")
			return err
		}
	}
	v.Set(out)
	return nil
}

// scalar reads a text, number or boolean, each also from the other's spelling.
func scalar(v reflect.Value, n *node) error {
	if n.kind == nodeArray || n.kind == nodeObject {
		return wrongKind("a plain value", n)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.text)
		return nil
	case reflect.Bool:
		return setBool(v, n)
	case reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(integerText(n), 10, v.Type().Bits())
		if err != nil {
			return wrongNumber("a whole number", v, n, err)
		}
		v.SetInt(i)
		return nil
	case reflect.Uint32, reflect.Uint64:
		u, err := strconv.ParseUint(integerText(n), 10, v.Type().Bits())
		if err != nil {
			return wrongNumber("a whole number without sign", v, n, err)
		}
		v.SetUint(u)
		return nil
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			return wrongNumber("a number", v, n, err)
		}
		v.SetFloat(f)
		return nil
	}
	return fmt.Errorf("members of type %v are not supported", v.Type())
}

// integerText is the spelling of a whole number: "" is 0, as fastjson reads it,
// and zeros after a point are dropped.
func integerText(n *node) string {
	if n.text == "" {
		return "0"
	}
	if whole, frac, ok := strings.Cut(n.text, "."); ok && whole != "" && strings.Trim(frac, "0") == "" {
		return whole
	}
	return n.text
}

func setBool(v reflect.Value, n *node) error {
	switch b, ok := parseBool(n.text); {
	case ok:
		v.SetBool(b)
	case n.text == "1" || n.text == "0" || n.text == "":
		v.SetBool(n.text == "1")
	default:
		return fmt.Errorf("want true or false, have %q", cutText(n.text))
	}
	return nil
}

func wrongKind(want string, n *node) error {
	if n.text != "" {
		return fmt.Errorf("want %s, have %v %q", want, n.kind, cutText(n.text))
	}
	return fmt.Errorf("want %s, have %v", want, n.kind)
}

func wrongNumber(want string, v reflect.Value, n *node, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q does not fit %d bits", cutText(n.text), v.Type().Bits())
	}
	return fmt.Errorf("want %s, have %q", want, cutText(n.text))
}
