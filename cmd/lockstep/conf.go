package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/internal/properties"
)

// javaKeys are the property names that RocketMQ's own daemons know, one a line.
//
//go:embed keys/*.txt
var javaKeys embed.FS

// confFlags are the flags of every daemon.
type confFlags struct {
	path         string
	set          []string
	print        bool
	allowUnknown bool
}

// conf is a configuration file on its way into options. Each key ends as used,
// known and without effect (one warning lists those), or unknown.
type conf struct {
	kind     string // "broker", …
	file     *properties.File
	known    []string // every key some part asked for
	notes    []string // warnings, one a line
	problems []error
}

// readConf reads the file and applies the overrides.
func readConf(kind string, f *confFlags) (*conf, error) {
	if f.path == "" {
		return nil, fmt.Errorf("%s: no configuration file; give one with -c FILE (lockstep %s --help shows a minimal one)", kind, kind)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("%s: read configuration: %w", kind, err)
	}
	file, err := properties.Parse(f.path, text)
	if err != nil {
		return nil, err
	}
	for _, s := range f.set {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %q is not key=value", s)
		}
		file.Set(strings.TrimSpace(key), strings.TrimSpace(value))
	}
	return &conf{kind: kind, file: file}, nil
}

// bind sets the tagged fields of options from the file.
func (c *conf) bind(options any) {
	c.known = append(c.known, properties.Keys(options)...)
	c.problem(c.file.Bind(options))
}

// take returns the value of a key that needs reading of its own; the first given
// name of several counts, and giving two different values is an error.
func (c *conf) take(names ...string) (string, bool) {
	c.known = append(c.known, names...)
	var value, from string
	for _, name := range names {
		v, ok := c.file.Get(name)
		switch {
		case !ok:
		case from == "":
			value, from = v, name
		case v != value:
			c.problemf("%s=%s contradicts %s=%s: keep one", name, v, from, value)
		}
	}
	return value, from != ""
}

// noEffect notes a key that RocketMQ needs and this product does not.
func (c *conf) noEffect(key, why string) {
	c.known = append(c.known, key)
	if v, ok := c.file.Get(key); ok {
		c.notes = append(c.notes, fmt.Sprintf("%s=%s has no effect: %s", key, v, why))
	}
}

// refuse rejects a key's value for which the product has no safe meaning.
func (c *conf) refuse(key, value, why string) {
	c.known = append(c.known, key)
	if v, ok := c.file.Get(key); ok && strings.EqualFold(v, value) {
		c.problemf("%s=%s: %s", key, v, why)
	}
}

// longLease is a write lease worth a warning: six times the default.
const longLease = time.Minute

// lease warns of a lease that makes failovers slow.
func (c *conf) lease(d time.Duration, off bool) {
	if d > longLease && !off {
		c.notes = append(c.notes, fmt.Sprintf("writeLeaseMillis=%d: a master that dies is replaced only after its lease, up to %v later; the default is 10000", d.Milliseconds(), d))
	}
}

func (c *conf) problem(err error) {
	if err != nil {
		c.problems = append(c.problems, err)
	}
}

func (c *conf) problemf(format string, args ...any) {
	c.problem(fmt.Errorf(c.file.Name+": "+format, args...))
}

// finish accounts for the keys that nothing took and returns all problems.
func (c *conf) finish(allowUnknown bool) error {
	java, err := c.java()
	if err != nil {
		return err
	}
	var ignored []string
	for _, e := range c.file.Unused() {
		switch {
		case slices.Contains(java, e.Key):
			ignored = append(ignored, e.Key)
		case allowUnknown:
			c.notes = append(c.notes, fmt.Sprintf("%s: %s is unknown and has no effect", c.file.Where(e), e.Key))
		default:
			c.problem(fmt.Errorf("%s: unknown key %s%s; correct it, remove it, or start with --allow-unknown", c.file.Where(e), e.Key, c.near(e.Key, java)))
		}
	}
	if len(ignored) > 0 {
		slices.Sort(ignored)
		c.notes = append(c.notes, "RocketMQ's keys without effect here: "+strings.Join(ignored, ", "))
	}
	return errors.Join(c.problems...)
}

func (c *conf) java() ([]string, error) {
	text, err := javaKeys.ReadFile("keys/" + c.kind + ".txt")
	if err != nil {
		return nil, fmt.Errorf("table of RocketMQ's keys: %w", err)
	}
	return strings.Fields(string(text)), nil
}

// near suggests the known key that was most likely meant.
func (c *conf) near(key string, java []string) string {
	best := slices.MinFunc(append(slices.Clone(c.known), java...), func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(key, a), distance(key, b)), cmp.Compare(a, b))
	})
	if distance(key, best) > max(2, len(key)/4) {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// distance is the number of letters to insert, delete or change, case ignored.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// effective is the configuration in force as lines that can be read back; of a
// key that several parts have, the first counts.
func effective(lines []string, options ...any) []string {
	for _, o := range options {
		lines = append(lines, properties.Format(o)...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(lines, func(line string) bool {
		key, _, _ := strings.Cut(line, "=")
		again := seen[key]
		seen[key] = true
		return again
	})
}

// absolute makes a path of the configuration independent of the working
// directory; "~" and RocketMQ's ${user.home} are the user's home.
func absolute(path string) (string, error) {
	for _, home := range []string{"~/", "${user.home}/"} {
		if rest, ok := strings.CutPrefix(path, home); ok {
			dir, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("path %s: %w", path, err)
			}
			return filepath.Join(dir, rest), nil
		}
	}
	return filepath.Abs(path)
}
