package decide

import (
	"fmt"
	"slices"

	"lockstep/internal/prng"
)

// Override replaces the hash for the keys a pattern selects.
type Override struct {
	Site  string
	Keys  Pattern
	Value int64
	// Benign takes the site's benign value instead of Value.
	Benign bool
	// Used counts the choices it decided; 0 at the end of a run means stale.
	Used int
}

// Choice is one decision that was made, as a recorder keeps it.
type Choice struct {
	Site  *Site
	Key   Key
	Value int64
}

// Decider answers choices. It is not safe for concurrent use.
type Decider struct {
	seed      uint64
	benign    bool
	names     []string
	nameHash  []uint64
	peerHash  []uint64 // by actor, its part of a key's hash as To
	lone      []uint64 // by actor, the hash of From with no To
	overrides []*Override
	bySite    map[string][]*Override // patterns; looked up, never ranged over
	exact     map[exactKey]*Override // overrides of one key
	hasExact  bool
	record    []Choice
	recording bool
	// seen is called with every choice made, for the rolling hash; may be nil.
	seen func(s *Site, k Key, v int64)
}

// exactKey is one thing at one site, by the names of a plan.
type exactKey struct {
	site, from, to string
	session, kind  int64
	n              int64
}

// exactly reports whether the pattern selects one key only.
func (p *Pattern) exactly() bool {
	return p.From != "*" && p.To != "*" && p.Session != Any && p.Kind != Any && p.NFrom == p.NTo
}

// New returns a decider whose noise is a keyed hash of seed, or every site's
// benign value when benign is set.
func New(seed uint64, benign bool, overrides []Override) *Decider {
	d := &Decider{seed: prng.Mix(seed), benign: benign, bySite: map[string][]*Override{}, exact: map[exactKey]*Override{}}
	d.Actor("-")
	for i := range overrides {
		o := overrides[i]
		o.Used = 0
		d.overrides = append(d.overrides, &o)
		if p := &o.Keys; p.exactly() {
			d.exact[exactKey{o.Site, p.From, p.To, p.Session, p.Kind, p.NFrom}] = &o
			d.hasExact = true
			continue
		}
		d.bySite[o.Site] = append(d.bySite[o.Site], &o)
	}
	return d
}

// Seen sets the function that is told every choice.
func (d *Decider) Seen(f func(s *Site, k Key, v int64)) { d.seen = f }

// Record makes the decider keep every choice that differs from benign.
func (d *Decider) Record() { d.recording = true }

// Recorded returns the choices kept since Record.
func (d *Decider) Recorded() []Choice { return d.record }

// Actor returns the index of a name, a new one when it is new.
func (d *Decider) Actor(name string) Actor {
	if i := slices.Index(d.names, name); i >= 0 {
		return Actor(i)
	}
	d.names = append(d.names, name)
	h := prng.HashString(name)
	d.nameHash = append(d.nameHash, h)
	d.peerHash = append(d.peerHash, prng.Mix(h+1))
	d.lone = append(d.lone, prng.Mix(h^d.peerHash[0]))
	return Actor(len(d.names) - 1)
}

// Decide returns the value of the choice: an override's, the benign value when
// noise is benign, else the keyed hash spread over dist.
func (d *Decider) Decide(s *Site, k Key, dist Dist) int64 {
	v, ok := int64(0), false
	if len(d.overrides) > 0 {
		v, ok = d.override(s, k)
	}
	switch {
	case ok:
	case d.benign:
		v = s.Benign
	default:
		v = dist.Draw(d.Bits(s, k))
	}
	if d.recording && v != s.Benign {
		d.record = append(d.record, Choice{s, k, v})
	}
	if d.seen != nil {
		d.seen(s, k, v)
	}
	return v
}

// Bits returns the hash of the choice without deciding anything: the parent's
// key for a dependent choice, such as which byte of a corrupted frame.
func (d *Decider) Bits(s *Site, k Key) uint64 {
	return prng.Mix(d.seed ^ s.id ^ prng.Mix(d.hash(k)))
}

// override looks for an override of exactly this key, then for the last
// pattern that selects it.
func (d *Decider) override(s *Site, k Key) (int64, bool) {
	if d.hasExact {
		x := exactKey{s.Name, d.name(k.From), d.name(k.To), int64(k.Session), int64(k.Kind), k.N}
		if o := d.exact[x]; o != nil {
			return o.value(s), true
		}
	}
	list := d.bySite[s.Name]
	for i := len(list) - 1; i >= 0; i-- {
		o := list[i]
		if !d.match(&o.Keys, k) {
			continue
		}
		return o.value(s), true
	}
	return 0, false
}

// value uses the override.
func (o *Override) value(s *Site) int64 {
	o.Used++
	if o.Benign {
		return s.Benign
	}
	return o.Value
}

// match reports whether the pattern selects the key.
func (d *Decider) match(p *Pattern, k Key) bool {
	return (p.From == "*" || p.From == d.name(k.From)) && (p.To == "*" || p.To == d.name(k.To)) &&
		(p.Session == Any || p.Session == int64(k.Session)) &&
		(p.Kind == Any || p.Kind == int64(k.Kind)) && p.NFrom <= k.N && k.N <= p.NTo
}

// Stale returns the overrides that decided nothing.
func (d *Decider) Stale() []Override {
	var out []Override
	for _, o := range d.overrides {
		if o.Used == 0 {
			out = append(out, *o)
		}
	}
	return out
}

// Exact returns the override that fixes a recorded choice.
func (d *Decider) Exact(c Choice) Override {
	return Override{Site: c.Site.Name, Value: c.Value, Keys: Pattern{
		From: d.name(c.Key.From), To: d.name(c.Key.To), Session: int64(c.Key.Session),
		Kind: int64(c.Key.Kind), NFrom: c.Key.N, NTo: c.Key.N}}
}

// Describe prints a choice for a reader.
func (d *Decider) Describe(c Choice) string {
	return fmt.Sprintf("%s %s = %d%s", c.Site.Name, d.keyText(c.Key), c.Value, c.Site.Unit)
}
