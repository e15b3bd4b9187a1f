package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
)

// Typed headers are structs whose fields carry a tag
//
//	ext:"name[,letter=x][,required][,always][,not]"
//
// with Java's exact spelling. One rule covers optional fields: a field at its
// zero value is not written, and a field that is absent reads as its zero value.
//
//	required  always written; reading without it is an error
//	always    always written; absent reads as the zero value
//	not       a bool whose text is the opposite, for Java fields that default to true
//	letter    the spelling of codes 310, 320 and 325
//	pointer   where absent and zero differ: nil is absent
//
// Broker ids of controllers start at 1, so an optional ha.BrokerID below 1 is not
// written and an absent one reads as ha.NoBroker. Embedded structs are flattened;
// a field without a tag or with ext:"-" is no header field. Keys that no field
// names are ignored, as Java does.

// FieldError says which header field could not be read and why.
type FieldError struct {
	Header string // Go name of the header type
	Field  string // key on the wire
	Value  string // text on the wire, cut to maxErrorText; "" when absent
	Want   string // what was expected; "missing" when the field was absent
}

// maxErrorText bounds the foreign text that goes into an error or a remark.
const maxErrorText = 80

// Error implements error.
func (e *FieldError) Error() string {
	if e.Want == missing {
		return fmt.Sprintf("header %s: required field %q is missing", e.Header, e.Field)
	}
	return fmt.Sprintf("header %s: field %q has value %q, want %s", e.Header, e.Field, e.Value, e.Want)
}

const missing = "missing"

// EncodeExt flattens a typed header (a struct or a pointer to one), in the order
// of its fields. A nil header gives a nil Ext.
func EncodeExt(header any) Ext { return encodeExt(header, false) }

// encodeExt is EncodeExt in the long or the letter spelling.
func encodeExt(header any, letters bool) Ext {
	if header == nil {
		return nil
	}
	v := reflect.ValueOf(header)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	plan := planOf(v.Type())
	ext := make(Ext, 0, len(plan.fields))
	for i := range plan.fields {
		f := &plan.fields[i]
		if text, ok := f.text(v.FieldByIndex(f.index)); ok {
			ext = append(ext, Field{f.name(letters), text})
		}
	}
	return ext
}

// DecodeExt fills header, a pointer to a typed header, from ext. Fields that are
// absent get their zero value. The error is a *FieldError.
func DecodeExt(ext Ext, header any) error { return decodeExt(ext, header, false) }

// decodeExt is DecodeExt in the long or the letter spelling.
func decodeExt(ext Ext, header any, letters bool) error {
	v := reflect.ValueOf(header)
	invariant.That(v.Kind() == reflect.Pointer && !v.IsNil(), "DecodeExt needs a pointer to a header")
	v = v.Elem()
	plan := planOf(v.Type())
	for i := range plan.fields {
		f := &plan.fields[i]
		key := f.name(letters)
		text, ok := ext.Get(key)
		if want := f.set(v.FieldByIndex(f.index), text, ok); want != "" {
			return &FieldError{Header: v.Type().Name(), Field: key, Value: cutText(text), Want: want}
		}
	}
	return nil
}

func cutText(s string) string {
	if len(s) > maxErrorText {
		return s[:maxErrorText] + "…"
	}
	return s
}

// extPlan is a header type's layout.
type extPlan struct{ fields []extField }

// extField is one header field.
type extField struct {
	key, letter           string
	index                 []int
	kind                  extKind
	bits                  int // of integers
	required, always, not bool
	pointer               bool
}

// extKind is how a field's text is read.
type extKind uint8

const (
	kindText extKind = iota
	kindBool
	kindInt
	kindUint
	kindBrokerID
	kindIDs
	kindMembers
	kindNamed // an enumeration with String and a table of names
)

// named lists the texts of each enumeration by value; value 0 is "absent".
var named = map[reflect.Type][]string{
	reflect.TypeFor[ha.Claim]():    {"", "holds", "broken"},
	reflect.TypeFor[ha.AckClass](): {"", "received", "durable"},
	reflect.TypeFor[Readiness]():   {"", "yes", "no"},
	reflect.TypeFor[Tristate]():    {"", "true", "false"},
}

// plans holds the layout of every header type, built once so that sessions on
// many goroutines share it without a lock.
var plans = buildPlans()

func buildPlans() map[reflect.Type]*extPlan {
	all := make(map[reflect.Type]*extPlan, len(headerTypes))
	for _, h := range headerTypes {
		t := reflect.TypeOf(h)
		all[t] = buildPlan(t)
	}
	return all
}

func planOf(t reflect.Type) *extPlan {
	if p, ok := plans[t]; ok {
		return p
	}
	return buildPlan(t)
}

func buildPlan(t reflect.Type) *extPlan {
	invariant.That(t.Kind() == reflect.Struct, "header type %v is not a struct", t)
	p := &extPlan{}
	seen := map[string]bool{}
	for _, sf := range reflect.VisibleFields(t) {
		tag := sf.Tag.Get("ext")
		if sf.Anonymous || tag == "" || tag == "-" {
			continue
		}
		f := parseTag(sf, tag)
		invariant.That(!seen[f.key], "header %v names %q twice", t, f.key)
		seen[f.key] = true
		p.fields = append(p.fields, f)
	}
	return p
}

func parseTag(sf reflect.StructField, tag string) extField {
	parts := strings.Split(tag, ",")
	f := extField{key: parts[0], index: sf.Index}
	for _, opt := range parts[1:] {
		switch {
		case opt == "required":
			f.required = true
		case opt == "always":
			f.always = true
		case opt == "not":
			f.not = true
		case strings.HasPrefix(opt, "letter="):
			f.letter = opt[len("letter="):]
		default:
			invariant.That(false, "field %s: unknown tag option %q", sf.Name, opt)
		}
	}
	t := sf.Type
	if t.Kind() == reflect.Pointer {
		f.pointer, t = true, t.Elem()
	}
	f.kind, f.bits = kindOf(t)
	return f
}

func kindOf(t reflect.Type) (extKind, int) {
	switch {
	case t == reflect.TypeFor[ha.BrokerID]():
		return kindBrokerID, 64
	case t == reflect.TypeFor[ha.IDs]():
		return kindIDs, 0
	case t == reflect.TypeFor[Members]():
		return kindMembers, 0
	case named[t] != nil:
		return kindNamed, 0
	}
	switch t.Kind() {
	case reflect.String:
		return kindText, 0
	case reflect.Bool:
		return kindBool, 0
	case reflect.Int32, reflect.Int64:
		return kindInt, t.Bits()
	case reflect.Uint32, reflect.Uint64:
		return kindUint, t.Bits()
	}
	invariant.That(false, "header field type %v is not supported", t)
	return 0, 0
}

func (f *extField) name(letters bool) string {
	if letters && f.letter != "" {
		return f.letter
	}
	return f.key
}

// text returns the field's text and whether it is written.
func (f *extField) text(v reflect.Value) (string, bool) {
	write := f.required || f.always
	if f.pointer {
		if v.IsNil() {
			return "", write
		}
		v, write = v.Elem(), true
	}
	write = write || !v.IsZero()
	switch f.kind {
	case kindText:
		return v.String(), write
	case kindBool:
		return strconv.FormatBool(v.Bool() != f.not), write
	case kindInt:
		return strconv.FormatInt(v.Int(), 10), write
	case kindBrokerID:
		return strconv.FormatInt(v.Int(), 10), f.required || f.always || v.Int() >= 1
	case kindUint:
		return strconv.FormatUint(v.Uint(), 10), write
	case kindIDs:
		return idsText(v.Interface().(ha.IDs)), v.Len() > 0 || f.required || f.always
	case kindMembers:
		return membersText(v.Interface().(Members)), v.Len() > 0 || f.required || f.always
	default:
		return f.nameOf(v), write
	}
}

func (f *extField) nameOf(v reflect.Value) string {
	names, n := named[v.Type()], v.Uint()
	invariant.That(n < uint64(len(names)), "field %s: value %d has no name", f.key, n)
	return names[n]
}

// set reads text into v; the result is what was wanted, "" when it went well.
func (f *extField) set(v reflect.Value, text string, present bool) string {
	present = present && (text != "" || f.kind == kindText)
	if !present {
		v.SetZero()
		if f.kind == kindBrokerID && !f.pointer {
			v.SetInt(int64(ha.NoBroker))
		}
		if f.required {
			return missing
		}
		return ""
	}
	if f.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	return f.setValue(v, text)
}

func (f *extField) setValue(v reflect.Value, text string) string {
	switch f.kind {
	case kindText:
		v.SetString(text)
	case kindBool:
		b, ok := parseBool(text)
		if !ok {
			return "true or false"
		}
		v.SetBool(b != f.not)
	case kindInt, kindBrokerID:
		n, err := strconv.ParseInt(text, 10, f.bits)
		if err != nil {
			return fmt.Sprintf("a whole number of %d bits", f.bits)
		}
		v.SetInt(n)
	case kindUint:
		n, err := strconv.ParseUint(text, 10, f.bits)
		if err != nil {
			return fmt.Sprintf("a whole number of %d bits without sign", f.bits)
		}
		v.SetUint(n)
	case kindIDs:
		ids, err := parseIDs(text)
		if err != nil {
			return err.Error()
		}
		v.Set(reflect.ValueOf(ids))
	case kindMembers:
		m, err := parseMembers(text)
		if err != nil {
			return err.Error()
		}
		v.Set(reflect.ValueOf(m))
	case kindNamed:
		return setNamed(v, text)
	}
	return ""
}

// setNamed sets an enumeration. A name from a newer peer reads as "unknown",
// which is what absence means, so that versions can mix.
func setNamed(v reflect.Value, text string) string {
	v.SetUint(0)
	for i, name := range named[v.Type()] {
		if name == text {
			v.SetUint(uint64(i))
		}
	}
	return ""
}

// parseBool reads true and false in any case of letters.
func parseBool(s string) (value, ok bool) {
	switch {
	case s == "true" || strings.EqualFold(s, "true"):
		return true, true
	case s == "false" || strings.EqualFold(s, "false"):
		return false, true
	}
	return false, false
}
