package wire

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/internal/invariant"
)

// MarshalBody writes a body as compact JSON without blanks (the Go client cuts
// routes as text), members in the order of the struct, tables sorted by key. Nil
// lists and tables are [] and {}; nil pointers and members with omitempty at
// their zero value are left out. Keys that are objects are written as objects,
// which is fastjson's dialect and not JSON (wire contracts 1.6).
func MarshalBody(v any) []byte { return appendValue(nil, reflect.ValueOf(v)) }

// bodyField is one member of a body struct.
type bodyField struct {
	name      string
	index     int
	omitempty bool
}

// bodyPlans holds the members of every body type, built once so that sessions on
// many goroutines share it without a lock.
var bodyPlans = buildBodyPlans()

// bodyTypes lists the bodies; the types inside them are found from these.
var bodyTypes = []any{
	TopicConfigWrapper{}, RegisterBrokerBody{}, KVTable{}, TopicList{}, GroupConfigWrapper{},
	RouteData{}, ClusterInfo{}, MemberGroupBody{}, HeartbeatData{}, ConsumerList{},
	LockBatchRequest{}, LockBatchResponse{}, CheckClientRequest{}, ConsumerConnection{},
	ProducerConnection{}, TopicStats{}, ConsumeStats{}, ConsumerOffsets{}, DelayOffsets{},
	RequestModes{}, ResetOffsets{}, SyncStateSetBody{}, ElectMasterBody{}, SyncStateData{},
	HARuntimeInfo{}, EpochCache{},
}

func buildBodyPlans() map[reflect.Type][]bodyField {
	plans := map[reflect.Type][]bodyField{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Map:
			add(t.Key())
			add(t.Elem())
		case reflect.Slice, reflect.Pointer:
			add(t.Elem())
		case reflect.Struct:
			if plans[t] != nil {
				return
			}
			plans[t] = fieldsOf(t)
			for i := range t.NumField() {
				add(t.Field(i).Type)
			}
		}
	}
	for _, b := range bodyTypes {
		add(reflect.TypeOf(b))
	}
	return plans
}

func bodyFields(t reflect.Type) []bodyField {
	if fields, ok := bodyPlans[t]; ok {
		return fields
	}
	return fieldsOf(t)
}

func fieldsOf(t reflect.Type) []bodyField {
	fields := make([]bodyField, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("json")
		if tag == "" || tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		fields = append(fields, bodyField{name: name, index: i, omitempty: opts == "omitempty"})
	}
	return fields
}

func findField(fields []bodyField, name string) *bodyField {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

func appendValue(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return appendValue(dst, v.Elem())
	case reflect.Struct:
		return appendStruct(dst, v)
	case reflect.Map:
		return appendTable(dst, v)
	case reflect.Slice:
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, v.Index(i))
		}
		return append(dst, ']')
	case reflect.String:
		return appendJSONText(dst, v.String())
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10)
	case reflect.Float64:
		return appendFloat(dst, v.Float())
	}
	invariant.That(false, "bodies cannot hold %v", v.Type())
	return dst
}

// appendFloat writes a rate; fastjson writes null for what is no number.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

func appendStruct(dst []byte, v reflect.Value) []byte {
	dst = append(dst, '{')
	first := true
	for _, f := range bodyFields(v.Type()) {
		member := v.Field(f.index)
		if f.omitempty && member.IsZero() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendJSONText(dst, f.name), ':')
		dst = appendValue(dst, member)
	}
	return append(dst, '}')
}

// appendTable writes a map sorted by the order of its keys: numbers by value,
// everything else by its text.
func appendTable(dst []byte, v reflect.Value) []byte {
	keys := make([]tableKey, 0, v.Len())
	for iter := v.MapRange(); iter.Next(); {
		keys = append(keys, keyOf(iter.Key()))
	}
	slices.SortFunc(keys, func(a, b tableKey) int {
		return cmp.Or(cmp.Compare(a.number, b.number), bytes.Compare(a.text, b.text))
	})
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, k.text...), ':')
		dst = appendValue(dst, v.MapIndex(k.value))
	}
	return append(dst, '}')
}

type tableKey struct {
	number int64
	text   []byte // as written
	value  reflect.Value
}

func keyOf(v reflect.Value) tableKey {
	switch v.Kind() {
	case reflect.String:
		return tableKey{text: appendJSONText(nil, v.String()), value: v}
	case reflect.Struct:
		return tableKey{text: appendStruct(nil, v), value: v}
	}
	text := append(strconv.AppendInt([]byte{'"'}, v.Int(), 10), '"')
	return tableKey{number: v.Int(), text: text, value: v}
}

// appendJSONText appends s quoted. Control characters are escaped, bytes that are
// no UTF-8 become U+FFFD, everything else stays as it is.
func appendJSONText(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainByte[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
		} else if dst = append(dst, s[start:i]...); c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
