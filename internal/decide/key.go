package decide

import (
	"fmt"
	"strconv"
	"strings"

	"lockstep/internal/prng"
)

// Actor is the dense index of a named actor (a node) in one Decider; 0 is
// "nobody".
type Actor uint16

// Key names the thing decided about. For a frame: from, to, session ordinal of
// the pair, kind of frame, and that it is the N-th of its kind there. For disk
// work: the node in From, its life in Session, the operation in Kind, the
// offset in N. Fields that mean nothing at a site are 0.
type Key struct {
	From, To Actor
	Session  uint32
	Kind     int32
	N        int64
}

// Sum is a quick hash of the key with actors by index, for hashes of one run.
func (k Key) Sum() uint64 {
	return prng.Mix(uint64(k.From)<<48^uint64(k.To)<<32^uint64(k.Session)) ^
		prng.Mix(uint64(uint32(k.Kind))<<32^uint64(k.N))
}

// keyText prints from>to/session/kind/n with names from the decider.
func (d *Decider) keyText(k Key) string {
	return fmt.Sprintf("%s>%s/%d/%d/%d", d.name(k.From), d.name(k.To), k.Session, k.Kind, k.N)
}

// name of an actor, "-" for nobody.
func (d *Decider) name(a Actor) string {
	if int(a) < len(d.names) {
		return d.names[a]
	}
	return "?" + strconv.Itoa(int(a))
}

// hash spreads a key. Actors enter by the hash of their names, so that adding
// a node to a world shifts nothing.
func (d *Decider) hash(k Key) uint64 {
	h := d.lone[k.From]
	if k.To != 0 {
		h = prng.Mix(d.nameHash[k.From] ^ d.peerHash[k.To])
	}
	h = prng.Mix(h ^ uint64(k.Session)<<32 ^ uint64(uint32(k.Kind)))
	return prng.Mix(h ^ uint64(k.N))
}

// Pattern selects keys: a field left open matches everything.
type Pattern struct {
	From, To      string // "*" matches every actor
	Session, Kind int64  // Any matches all
	NFrom, NTo    int64  // range of N, both included
}

// Any is the wildcard of a Pattern's Session and Kind.
const Any = int64(-1) << 63

// EveryKey matches all keys.
func EveryKey() Pattern {
	return Pattern{From: "*", To: "*", Session: Any, Kind: Any, NFrom: -1 << 63, NTo: 1<<63 - 1}
}

// ParsePattern reads from>to/session/kind/n, where each part may be * and n
// may be a range a..b.
func ParsePattern(s string) (Pattern, error) {
	p := EveryKey()
	if s == "*" {
		return p, nil
	}
	parts := strings.Split(s, "/")
	if len(parts) != 4 {
		return p, fmt.Errorf("key %q: want FROM>TO/SESSION/KIND/N with * for any", s)
	}
	var ok bool
	if p.From, p.To, ok = strings.Cut(parts[0], ">"); !ok || p.From == "" || p.To == "" {
		return p, fmt.Errorf("key %q: want FROM>TO in %q", s, parts[0])
	}
	var err error
	if p.Session, err = wild(parts[1]); err != nil {
		return p, fmt.Errorf("key %q: session: %w", s, err)
	}
	if p.Kind, err = wild(parts[2]); err != nil {
		return p, fmt.Errorf("key %q: kind: %w", s, err)
	}
	if parts[3] == "*" {
		return p, nil
	}
	lo, hi, ranged := strings.Cut(parts[3], "..")
	if !ranged {
		hi = lo
	}
	if p.NFrom, err = strconv.ParseInt(lo, 10, 64); err != nil {
		return p, fmt.Errorf("key %q: n: %w", s, err)
	}
	if p.NTo, err = strconv.ParseInt(hi, 10, 64); err != nil {
		return p, fmt.Errorf("key %q: n: %w", s, err)
	}
	return p, nil
}

// wild reads a number or *.
func wild(s string) (int64, error) {
	if s == "*" {
		return Any, nil
	}
	return strconv.ParseInt(s, 10, 64)
}

// String prints the pattern in the form ParsePattern reads.
func (p Pattern) String() string {
	n := "*"
	switch {
	case p.NFrom == p.NTo:
		n = strconv.FormatInt(p.NFrom, 10)
	case p.NFrom != -1<<63 || p.NTo != 1<<63-1:
		n = strconv.FormatInt(p.NFrom, 10) + ".." + strconv.FormatInt(p.NTo, 10)
	}
	return p.From + ">" + p.To + "/" + unwild(p.Session) + "/" + unwild(p.Kind) + "/" + n
}

// unwild prints a number or *.
func unwild(v int64) string {
	if v == Any {
		return "*"
	}
	return strconv.FormatInt(v, 10)
}
