package storage

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strconv"
	"strings"

	"lockstep/storage/vfs"
)

// Side files are small text files of Lockstep's own, written atomically: a title
// line, `key=value` lines in a fixed order, and a last line `crc=XXXXXXXX` over
// everything before it. Text, so that an operator can read them; the CRC tells
// rot from content.

// maxSideFile bounds a side file in bytes.
const maxSideFile = 64 << 10

type sideField struct{ key, value string }

// sideFile is the decoded content, in order.
type sideFile []sideField

func (s sideFile) get(key string) string {
	for _, f := range s {
		if f.key == key {
			return f.value
		}
	}
	return ""
}

// number reads a decimal field; absent or malformed is an error.
func (s sideFile) number(key string) (int64, error) {
	v, err := strconv.ParseInt(s.get(key), 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("field %s is %q, not a number", key, s.get(key))
	}
	return v, nil
}

func field(key, value string) sideField      { return sideField{key, value} }
func fieldInt(key string, v int64) sideField { return sideField{key, strconv.FormatInt(v, 10)} }
func sideTitle(kind string) string           { return "lockstep " + kind + " v1\n" }
func sideSum(b []byte) string                { return fmt.Sprintf("crc=%08x\n", crc32.ChecksumIEEE(b)) }
func oneLine(s string) string                { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
func damaged(name, reason, remedy string) error {
	return &DamageError{File: name, Reason: reason, Remedy: remedy}
}

// encodeSide lays out a side file of the given kind.
func encodeSide(kind string, fields ...sideField) []byte {
	b := []byte(sideTitle(kind))
	for _, f := range fields {
		b = append(b, f.key...)
		b = append(b, '=')
		b = append(b, oneLine(f.value)...)
		b = append(b, '\n')
	}
	return append(b, sideSum(b)...)
}

// decodeSide checks title and CRC and splits the fields.
func decodeSide(kind string, b []byte) (sideFile, error) {
	if len(b) > maxSideFile {
		return nil, fmt.Errorf("%d bytes, more than %d", len(b), maxSideFile)
	}
	i := bytes.LastIndex(b, []byte("crc="))
	if i < 0 || string(b[i:]) != sideSum(b[:i]) {
		return nil, errors.New("checksum differs")
	}
	body, ok := strings.CutPrefix(string(b[:i]), sideTitle(kind))
	if !ok {
		return nil, fmt.Errorf("title is not %q", strings.TrimSpace(sideTitle(kind)))
	}
	var out sideFile
	for line := range strings.Lines(body) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("line %.40q has no key", line)
		}
		out = append(out, sideField{key, value})
	}
	return out, nil
}

// readSide reads a side file; found is false when it does not exist.
func readSide(fsys vfs.FS, name, kind string) (s sideFile, found bool, err error) {
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, fmt.Errorf("read %s: %w", name, err)
	}
	s, err = decodeSide(kind, b)
	return s, true, err
}

// removeDurably removes a file, if it exists, and makes that durable.
func removeDurably(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", name, err)
	}
	dir := "."
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir = name[:i]
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
