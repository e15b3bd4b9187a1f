package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/event"
)

// maxNanos bounds the times in a fault: about 31 simulated years.
const maxNanos = int64(1_000_000_000) * 1_000_000_000

// parseFault reads KIND TARGET and then clauses in any order.
func parseFault(words []string) (*Fault, error) {
	if len(words) < 2 {
		return nil, errors.New("want: fault KIND TARGET at TIME | on EVENT#K[@NODE] …")
	}
	f := &Fault{Kind: FaultKind(words[0])}
	if !slices.Contains(Kinds(), f.Kind) {
		return nil, fmt.Errorf("unknown fault kind %q", words[0])
	}
	f.parseTarget(words[1])
	rest := words[2:]
	for len(rest) > 0 {
		if len(rest) < 2 {
			return nil, fmt.Errorf("%q lacks its value", rest[0])
		}
		if err := f.parseClause(rest[0], rest[1]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", rest[0], rest[1], err)
		}
		rest = rest[2:]
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f, nil
}

// parseTarget reads nodes, or the sides of a network fault.
func (f *Fault) parseTarget(s string) {
	if !f.Kind.Network() {
		if s != "-" {
			f.Nodes = strings.Split(s, ",")
		}
		return
	}
	sep := "|"
	f.Shape = Split
	if ring, ok := strings.CutPrefix(s, "ring:"); ok {
		f.Shape, s = Ring, ring
	} else if strings.Contains(s, ">") {
		f.Shape, sep = Away, ">"
	}
	for _, side := range strings.Split(s, sep) {
		f.Sides = append(f.Sides, strings.Split(side, ","))
	}
}

// parseClause reads one word and its value.
func (f *Fault) parseClause(word, value string) (err error) {
	switch word {
	case "at":
		f.When.At, err = nanos(value)
	case "on":
		err = f.When.parseEvent(value)
	case "saying":
		f.When.Text = value
	case "after":
		f.When.Delay, err = nanos(value)
	case "disk":
		f.When.DiskStep, err = strconv.Atoi(value)
	case "for":
		f.For, err = nanos(value)
	case "arg":
		f.Arg, err = strconv.ParseInt(value, 10, 64)
	case "text":
		f.Text = value
	default:
		err = errors.New("want at, on, saying, after, disk, for, arg or text")
	}
	return err
}

// nanos reads a duration.
func nanos(s string) (int64, error) {
	d, err := time.ParseDuration(s)
	return int64(d), err
}

// parseEvent reads EVENT#K or EVENT#K@NODE.
func (t *Trigger) parseEvent(s string) error {
	s, t.Node, _ = strings.Cut(s, "@")
	name, k, ok := strings.Cut(s, "#")
	if !ok {
		return errors.New("want EVENT#K, such as Serving#1")
	}
	var err error
	if t.K, err = strconv.Atoi(k); err != nil {
		return err
	}
	t.Kind = eventKind(name)
	if t.Kind == event.None {
		return fmt.Errorf("unknown event %q", name)
	}
	return nil
}

// eventKind finds an event by its name; event.None when there is none.
func eventKind(name string) event.Kind {
	for k := event.None + 1; k.String() != "Kind?"; k++ {
		if k.String() == name {
			return k
		}
	}
	return event.None
}

// Validate says what is wrong with a fault, whatever world it is for.
func (f *Fault) Validate() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("unknown fault kind %q", f.Kind)
	}
	t := &f.When
	for _, v := range []int64{t.At, t.Delay, f.For} {
		if v < 0 || v > maxNanos {
			return fmt.Errorf("fault %s: time %d ns is outside 0..%d", f.Kind, v, maxNanos)
		}
	}
	if t.Kind == event.None && (t.K != 0 || t.Node != "" || t.Text != "") || t.Kind != event.None && t.K < 1 {
		return fmt.Errorf("fault %s: an event trigger is EVENT#K with K from 1", f.Kind)
	}
	if t.DiskStep < 0 || t.DiskStep > 0 && (!f.Kind.kills() || f.Kind == WipeDisk || len(f.Nodes) != 1) {
		return fmt.Errorf("fault %s: \"disk\" is for a crash of one node", f.Kind)
	}
	if err := f.validateTargets(); err != nil {
		return err
	}
	return f.validateArg()
}

// validateTargets checks nodes and sides.
func (f *Fault) validateTargets() error {
	want, have := 1, len(f.Nodes)
	switch {
	case f.Kind == Action:
		want = 0
	case f.Kind.Network():
		have = len(f.Sides)
		if want = 2; f.Shape == Ring {
			want = 1
		}
		if len(f.Nodes) > 0 || f.Shape != Ring && f.Shape != Split && f.Shape != Away ||
			f.Shape == Away && have != 2 || f.Shape == Ring && have != 1 {
			return fmt.Errorf("fault %s: want sides a,b|c, one way a>b, or ring:a,b,c,d", f.Kind)
		}
	case len(f.Sides) > 0 || f.Shape != "":
		return fmt.Errorf("fault %s has nodes, not sides", f.Kind)
	}
	if have < want {
		return fmt.Errorf("fault %s: too few targets", f.Kind)
	}
	names := slices.Clone(f.Nodes)
	for _, s := range f.Sides {
		names = append(names, s...)
	}
	if t := f.When.Node; t != "" {
		names = append(names, t)
		names = slices.Compact(names)
	}
	for _, n := range names {
		if !validName(n) {
			return fmt.Errorf("fault %s: node name %q: want letters, digits, '-', '_', '.'", f.Kind, n)
		}
	}
	return nil
}

// validateArg checks the numbers a kind needs.
func (f *Fault) validateArg() error {
	lo, hi := int64(-1)<<62, int64(1)<<62
	switch f.Kind {
	case SlowCPU:
		lo, hi = 1, maxCPUTimes
	case DiskSlow:
		lo, hi = 1, 1_000_000
	case Loss, Corrupt:
		lo, hi = 1, 1000
	case Bandwidth:
		lo, hi = 1, 1<<40
	case Delay:
		lo, hi = 1, maxNanos
	case ClockDrift:
		lo, hi = -900_000, 900_000
	case WallStep:
		lo, hi = -1<<40, 1<<40
	case PowerLoss:
		lo, hi = -2, 0
	case DiskEIO, DiskSyncDrop, DiskRot, DiskFull:
		lo, hi = 0, 1<<40
	}
	if f.Arg < lo || f.Arg > hi {
		return fmt.Errorf("fault %s: arg %d is outside %d..%d", f.Kind, f.Arg, lo, hi)
	}
	return nil
}

// validName reports whether a node may have the name.
func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return s != "" && s != "-" && len(s) <= 64
}
