// Package properties reads RocketMQ's configuration files (broker.conf and its
// kin: key=value lines) and sets tagged option structs from them. Every key is
// accounted for: set, known but without effect here, or unknown, each named.
package properties

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a configuration file.
const (
	MaxBytes = 1 << 20
	MaxLines = 10_000
	// maxFaults bounds the messages about one file that is something else.
	maxFaults = 20
)

// Entry is one key of a file.
type Entry struct {
	Key, Value string
	Line       int // 1 for the first line, 0 for an override
	used       bool
}

// File is a parsed configuration file.
type File struct {
	Name    string
	Entries []*Entry
}

// Parse reads Java properties as RocketMQ writes them: key=value (or key:value),
// # and ! comments, blanks around both parts ignored. A key given twice with
// different values is an error, as is a line without a separator.
func Parse(name string, text []byte) (*File, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%s: %d bytes, a configuration file has at most %d", name, len(text), MaxBytes)
	}
	f := &File{Name: name}
	var errs []error
	for i, line := range strings.Split(string(text), "\n") {
		if i >= MaxLines {
			return nil, fmt.Errorf("%s: more than %d lines", name, MaxLines)
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		if !utf8.ValidString(line) {
			errs = append(errs, fmt.Errorf("%s:%d: %.80q is not UTF-8; save the file as UTF-8 text", name, i+1, line))
			if len(errs) >= maxFaults {
				return nil, errors.Join(append(errs, fmt.Errorf("%s: more faults are not listed; is it a configuration file?", name))...)
			}
			continue
		}
		at := strings.IndexAny(line, "=:")
		if at <= 0 {
			errs = append(errs, fmt.Errorf("%s:%d: %q is not key=value", name, i+1, line))
			continue
		}
		e := &Entry{Key: strings.TrimSpace(line[:at]), Value: strings.TrimSpace(line[at+1:]), Line: i + 1}
		if old := f.find(e.Key); old != nil && old.Value != e.Value {
			errs = append(errs, fmt.Errorf("%s:%d: %s is %q here and %q in line %d; keep one", name, e.Line, e.Key, e.Value, old.Value, old.Line))
			continue
		}
		f.Entries = append(f.Entries, e)
	}
	return f, errors.Join(errs...)
}

func (f *File) find(key string) *Entry {
	for _, e := range f.Entries {
		if e.Key == key {
			return e
		}
	}
	return nil
}

// Get returns the value of a key and marks it used.
func (f *File) Get(key string) (string, bool) {
	e := f.find(key)
	if e == nil {
		return "", false
	}
	e.used = true
	return e.Value, true
}

// Unused returns the entries that nothing took so far.
func (f *File) Unused() []*Entry {
	var out []*Entry
	for _, e := range f.Entries {
		if !e.used {
			out = append(out, e)
		}
	}
	return out
}

// Keys lists the keys that options (a pointer to a struct) understands.
func Keys(options any) []string {
	var out []string
	each(reflect.ValueOf(options).Elem(), func(key, _ string, _ reflect.Value) { out = append(out, key) })
	slices.Sort(out)
	return out
}

// Set adds a key or replaces its value, as an override from a command line does.
func (f *File) Set(key, value string) {
	if e := f.find(key); e != nil {
		e.Value, e.Line = value, 0
		return
	}
	f.Entries = append(f.Entries, &Entry{Key: key, Value: value})
}

// Where names the place that an entry comes from, for messages: file:line, or
// --set for an override.
func (f *File) Where(e *Entry) string {
	if e.Line == 0 {
		return "--set"
	}
	return fmt.Sprintf("%s:%d", f.Name, e.Line)
}

// Has reports whether the file gives the key.
func (f *File) Has(key string) bool { return f.find(key) != nil }

// Bind sets the fields of options (a pointer to a struct) whose `key` tag is in
// the file. Durations are milliseconds unless a `unit` tag names h, m or s; a
// value may also carry its own unit ("3s"). Lists are split at ';' and ','.
// Every bad value is reported with its line. Lists of structs have spellings of
// their own: their callers Get them.
func (f *File) Bind(options any) error {
	var errs []error
	each(reflect.ValueOf(options).Elem(), func(key, unit string, v reflect.Value) {
		e := f.find(key)
		if e == nil || listOfStructs(v.Type()) {
			return
		}
		e.used = true
		if err := set(v, e.Value, unit); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s=%s: %w", f.Where(e), key, e.Value, err))
		}
	})
	return errors.Join(errs...)
}

func listOfStructs(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// Format writes options as a file that Bind reads back, one key=value a line, in
// the order of the fields. Lists of structs are left out, as in Bind.
func Format(options any) []string {
	var out []string
	each(reflect.ValueOf(options).Elem(), func(key, unit string, v reflect.Value) {
		if !listOfStructs(v.Type()) {
			out = append(out, key+"="+text(v, unit))
		}
	})
	return out
}

// text is the inverse of set.
func text(v reflect.Value, unit string) string {
	if d, ok := v.Interface().(time.Duration); ok {
		if u := units[unit]; d%u == 0 {
			return strconv.FormatInt(int64(d/u), 10)
		}
		return d.String()
	}
	if list, ok := v.Interface().([]string); ok {
		return strings.Join(list, ";")
	}
	return fmt.Sprint(v.Interface())
}

// each visits every tagged field, embedded structs included.
func each(v reflect.Value, visit func(key, unit string, v reflect.Value)) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		key := sf.Tag.Get("key")
		switch {
		case key != "":
			visit(key, sf.Tag.Get("unit"), v.Field(i))
		case sf.Anonymous && sf.Type.Kind() == reflect.Struct:
			each(v.Field(i), visit)
		}
	}
}

var units = map[string]time.Duration{"": time.Millisecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour}

func set(v reflect.Value, text, unit string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		return setDuration(v, text, unit)
	}
	if _, named := v.Interface().(fmt.Stringer); named && v.CanUint() {
		return setWord(v, text)
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return errors.New("write true or false")
		}
		v.SetBool(b)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("write a whole number of at most %d bits", v.Type().Bits())
		}
		v.SetInt(n)
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("write a whole number from 0, of at most %d bits", v.Type().Bits())
		}
		v.SetUint(n)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		parts := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
		v.Set(reflect.ValueOf(parts).Convert(v.Type()))
	default:
		return fmt.Errorf("this kind of value (%v) cannot be configured", v.Type())
	}
	return nil
}

func setDuration(v reflect.Value, text, unit string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		u := units[unit]
		d := time.Duration(n) * u
		if n != 0 && d/time.Duration(n) != u {
			return errors.New("too long")
		}
		v.SetInt(int64(d))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("write a number of milliseconds, or a duration such as 3s")
	}
	v.SetInt(int64(d))
	return nil
}

// setWord sets a small enumeration by the spelling its String method gives.
func setWord(v reflect.Value, text string) error {
	var known []string
	for n := uint64(0); n < 32; n++ {
		v.SetUint(n)
		s := v.Interface().(fmt.Stringer).String()
		if slices.Contains(known, s) {
			break // enumerations wrap around
		}
		if strings.EqualFold(s, text) {
			return nil
		}
		known = append(known, s)
	}
	v.SetUint(0)
	return fmt.Errorf("write one of %s", strings.Join(known, ", "))
}
