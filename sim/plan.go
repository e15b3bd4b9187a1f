package sim

import (
	"slices"

	"lockstep/internal/decide"
)

// PlanVersion is the format version of plan files.
const PlanVersion = 1

// Setting is one named option of a plan.
type Setting struct{ Name, Value string }

// Plan is everything that makes a run: options, noise, faults and overrides. A
// plan with benign noise needs no seed.
type Plan struct {
	Drill    string    // name of the scenario the plan belongs to; "" for a bare world
	Settings []Setting // options of world and scenario, in file order
	Seed     uint64    // noise, unless Benign
	Benign   bool      // no noise: every site takes its benign value
	Faults   []*Fault
	Choices  []decide.Override
}

// Setting returns the value of a named option and whether it is present.
func (p *Plan) Setting(name string) (string, bool) {
	for _, s := range p.Settings {
		if s.Name == name {
			return s.Value, true
		}
	}
	return "", false
}

// Set replaces or appends a named option.
func (p *Plan) Set(name, value string) {
	for i := range p.Settings {
		if p.Settings[i].Name == name {
			p.Settings[i].Value = value
			return
		}
	}
	p.Settings = append(p.Settings, Setting{name, value})
}

// Pinned returns a plan that needs no seed: benign noise, and every choice that
// differed from benign as an override of its own. World.Decider().Record() must
// have been called before the first Run. It is for short runs: a minute has some
// hundred thousand choices.
func (w *World) Pinned() *Plan {
	p := *w.plan
	p.Seed, p.Benign = 0, true
	p.Settings = slices.Clone(p.Settings)
	p.Faults = nil
	for _, f := range w.plan.Faults {
		c := *f
		c.Fired, c.Refused, c.Ended = 0, "", false
		p.Faults = append(p.Faults, &c)
	}
	p.Choices = slices.Clone(p.Choices)
	for _, c := range w.decider.Recorded() {
		p.Choices = append(p.Choices, w.decider.Exact(c))
	}
	return &p
}
