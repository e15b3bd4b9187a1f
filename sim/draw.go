package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/decide"
	"lockstep/internal/prng"
)

// field is one option that plans can name and seeds can draw. Exactly one of
// number, flag and dist is set.
type field struct {
	name   string
	number func(o *Options) *int64
	flag   func(o *Options) *bool
	dist   func(o *Options) *decide.Dist
	// choices are what a seed draws from, as text; the first is the default. A value
	// that is listed twice is drawn twice as often.
	choices []string
}

// us and milli are units of the texts below.
const (
	us    = int64(time.Microsecond)
	milli = int64(time.Millisecond)
)

// spread is the text of a Dist in nanoseconds.
func spread(lo, hi, tail, permille int64) string {
	return fmt.Sprintf("%d,%d,%d,%d", lo, hi, tail, permille)
}

// fields lists the options in the order they are printed.
func fields() []field {
	return append(netFields(), hostFields()...)
}

// netFields are the options of the network.
func netFields() []field {
	return []field{
		{name: "net.codec", flag: func(o *Options) *bool { return &o.Net.Codec }, choices: []string{"false", "false", "true"}},
		{name: "net.delay", dist: func(o *Options) *decide.Dist { return &o.Net.Delay }, choices: []string{
			spread(50*us, 300*us, 0, 0), spread(50*us, 300*us, 20*milli, 5), spread(200*us, 2*milli, 100*milli, 10),
			spread(milli, 10*milli, 500*milli, 10)}},
		{name: "net.zone-delay", dist: func(o *Options) *decide.Dist { return &o.Net.ZoneDelay }, choices: []string{
			spread(500*us, 2*milli, 0, 0), spread(500*us, 2*milli, 100*milli, 5), spread(5*milli, 20*milli, 300*milli, 5)}},
		{name: "net.loss-permille", number: func(o *Options) *int64 { return &o.Net.LossPermille },
			choices: []string{"0", "0", "1", "10", "50"}},
		{name: "net.retransmit", dist: func(o *Options) *decide.Dist { return &o.Net.Retransmit }, choices: []string{
			spread(5*milli, 200*milli, 1000*milli, 50), spread(milli, 20*milli, 0, 0)}},
		{name: "net.bandwidth", number: func(o *Options) *int64 { return &o.Net.Bandwidth },
			choices: []string{"0", "0", "0", "125000000", "12500000"}},
		{name: "net.dial-timeout", number: func(o *Options) *int64 { return &o.Net.DialTimeout }, choices: []string{"3000000000"}},
		{name: "net.stream-timeout", number: func(o *Options) *int64 { return &o.Net.StreamTimeout },
			choices: []string{"30000000000", "10000000000", "120000000000"}},
		{name: "net.keep-alive", number: func(o *Options) *int64 { return &o.Net.KeepAlive },
			choices: []string{"60000000000", "150000000000"}},
		{name: "net.send-buffer", number: func(o *Options) *int64 { return &o.Net.SendBuffer }, choices: []string{"67108864"}},
		{name: "net.receive-buffer", number: func(o *Options) *int64 { return &o.Net.ReceiveBuffer },
			choices: []string{"4194304", "65536", "4194304"}},
	}
}

// hostFields are the options of disks, loops and clocks.
func hostFields() []field {
	return []field{
		{name: "disk.write", dist: func(o *Options) *decide.Dist { return &o.DiskWrite }, choices: []string{
			spread(5*us, 40*us, 0, 0), spread(5*us, 200*us, 20*milli, 5)}},
		{name: "disk.sync", dist: func(o *Options) *decide.Dist { return &o.DiskSync }, choices: []string{
			spread(400*us, 2*milli, 0, 0), spread(50*us, 200*us, 0, 0), spread(milli, 8*milli, 300*milli, 10)}},
		{name: "disk.read", dist: func(o *Options) *decide.Dist { return &o.DiskRead }, choices: []string{
			spread(50*us, 300*us, 0, 0), spread(milli, 10*milli, 200*milli, 10)}},
		{name: "disk.nanos-per-kib", number: func(o *Options) *int64 { return &o.DiskNanosPerKiB }, choices: []string{"2000", "10000"}},
		{name: "disk.bytes", number: func(o *Options) *int64 { return &o.DiskBytes }, choices: []string{"17179869184"}},
		{name: "loop.cost", dist: func(o *Options) *decide.Dist { return &o.Batch }, choices: []string{
			spread(2*us, 20*us, 0, 0), spread(5*us, 50*us, 5*milli, 2)}},
		{name: "loop.batch", number: func(o *Options) *int64 { return &o.BatchMax }, choices: []string{"64", "1", "4", "1000"}},
		{name: "loop.linger", dist: func(o *Options) *decide.Dist { return &o.Linger }, choices: []string{
			spread(0, 0, 0, 0), spread(0, 200*us, 0, 0), spread(0, 0, 2*milli, 100)}},
		{name: "loop.settle-twice", flag: func(o *Options) *bool { return &o.SettleTwice }, choices: []string{"false", "false", "false", "true"}},
		{name: "loop.poison", flag: func(o *Options) *bool { return &o.Poison }, choices: []string{"false", "false", "false", "true"}},
		{name: "life.boot", dist: func(o *Options) *decide.Dist { return &o.Boot }, choices: []string{
			spread(50*milli, 400*milli, 0, 0), spread(10*milli, 2000*milli, 0, 0)}},
		{name: "life.restart", dist: func(o *Options) *decide.Dist { return &o.Restart }, choices: []string{
			spread(500*milli, 2000*milli, 0, 0), spread(100*milli, 10_000*milli, 0, 0)}},
		{name: "clock.offset", number: func(o *Options) *int64 { return &o.ClockOffset }, choices: []string{"0", "1000000000000000", "1000000000000000"}},
		{name: "clock.wall-millis", number: func(o *Options) *int64 { return &o.WallOffsetMillis }, choices: []string{"0", "500", "60000"}},
		{name: "clock.drift-ppm", number: func(o *Options) *int64 { return &o.DriftPPM }, choices: []string{"0", "50", "200"}},
	}
}

// DrawOptions draws the options of a world from its seed, each keyed by its
// own name, so that a new option shifts no other.
func DrawOptions(seed uint64) Options {
	o := DefaultOptions()
	for _, f := range fields() {
		v := prng.Hash(seed, prng.HashString("sim.options"), prng.HashString(f.name))
		if err := f.set(&o, f.choices[prng.Range(v, 0, int64(len(f.choices))-1)]); err != nil {
			panic(err) // a choice in the table above that does not parse
		}
	}
	return o
}

// Settings prints the options as a plan holds them.
func (o *Options) Settings() []Setting {
	var out []Setting
	for _, f := range fields() {
		out = append(out, Setting{f.name, f.get(o)})
	}
	return out
}

// Apply sets the world's options that a plan names; names of others, such as
// the scenario's, are returned.
func (o *Options) Apply(settings []Setting) (other []Setting, err error) {
	all := fields()
	for _, s := range settings {
		known := false
		for i := range all {
			if all[i].name != s.Name {
				continue
			}
			known = true
			if err := all[i].set(o, s.Value); err != nil {
				return nil, fmt.Errorf("option %s: %w", s.Name, err)
			}
		}
		if !known {
			other = append(other, s)
		}
	}
	return other, nil
}

// get prints the field's value.
func (f *field) get(o *Options) string {
	switch {
	case f.number != nil:
		return strconv.FormatInt(*f.number(o), 10)
	case f.flag != nil:
		return strconv.FormatBool(*f.flag(o))
	}
	d := f.dist(o)
	return spread(d.Lo, d.Hi, d.Tail, d.TailPermille)
}

// set reads the field's value.
func (f *field) set(o *Options, text string) (err error) {
	switch {
	case f.number != nil:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("want a number from 0, not %q", text)
		}
		*f.number(o) = v
		return nil
	case f.flag != nil:
		*f.flag(o), err = strconv.ParseBool(text)
		return err
	}
	parts := strings.Split(text, ",")
	var v [4]int64
	if len(parts) != 4 {
		return fmt.Errorf("want LO,HI,TAIL,PERMILLE, not %q", text)
	}
	for i, p := range parts {
		if v[i], err = strconv.ParseInt(p, 10, 64); err != nil || v[i] < 0 {
			return fmt.Errorf("want four numbers from 0, not %q", text)
		}
	}
	if v[0] > v[1] || v[3] > 1000 || v[3] > 0 && v[2] < v[1] {
		return fmt.Errorf("want LO ≤ HI ≤ TAIL and PERMILLE ≤ 1000, not %q", text)
	}
	*f.dist(o) = decide.Dist{Lo: v[0], Hi: v[1], Tail: v[2], TailPermille: v[3]}
	return nil
}
