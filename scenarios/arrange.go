package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/prng"
	"lockstep/sim"
)

// Limits of a world. Nodes have names of one letter and a number, and the letters of
// brokers end before those of controllers.
const (
	maxGroups      = 2
	maxReplicas    = 16
	maxControllers = 15
	maxNamesrvs    = 8
	maxQueues      = 64
	minClients     = 4 // fewer cannot show an order
	maxClients     = 64
	maxRate        = 10_000 // sends a second
	// recordRoom is what a record takes beside its body, bytes, at most.
	recordRoom = 512
)

// Check reports what is wrong with settings of the command line for one run, before
// anything runs: a name that is not known, a value that cannot be read, and what the
// daemons refuse to start with.
func Check(d *Drill, seed uint64, settings []Option) error {
	_, _, err := arrange(d, seed, RunOptions{Settings: settings})
	return err
}

// arrange draws the setup of a run and lays the plan's and the command line's
// settings over it. The source goes on to draw the faults.
func arrange(d *Drill, seed uint64, o RunOptions) (*Setup, *prng.Source, error) {
	rnd := prng.New(prng.Hash(seed, prng.HashString(d.ID)))
	s := Draw(rnd)
	s.drawHost(prng.New(prng.Hash(seed, prng.HashString(d.ID), prng.HashString("host"))))
	if d.Pin != nil {
		d.Pin(rnd, &s)
	}
	s.clamp()
	if o.Plan != nil {
		if err := s.follow(o.Plan); err != nil {
			return nil, nil, fmt.Errorf("plan: %w", err)
		}
	}
	for _, x := range o.Settings {
		if err := s.Apply(x.Name, x.Value); err != nil {
			return nil, nil, fmt.Errorf("--set: %w", err)
		}
	}
	s.clamp(o.Settings...)
	if err := s.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%s seed %d, where options that are not set are drawn or the drill's: %w", d.ID, seed, err)
	}
	return &s, rnd, nil
}

// follow takes the options of a plan as they are: what they contradict is not drawn.
func (s *Setup) follow(p *sim.Plan) error {
	for _, x := range p.Settings {
		if err := s.Apply(x.Name, x.Value); err != nil {
			return err
		}
	}
	return s.Validate()
}

// clamp makes drawn values fit the others; what was set stays as it is, to be refused
// if it does not fit.
func (s *Setup) clamp(set ...Option) {
	drawn := func(name string) bool {
		return !slices.ContainsFunc(set, func(o Option) bool { return o.Name == name })
	}
	if drawn("minInSyncReplicas") {
		s.Min = max(1, min(s.Min, s.Replicas))
	}
	if drawn("inSyncReplicas") {
		s.Count = max(1, min(s.Count, s.Replicas))
	}
	if drawn("bodyBytes") {
		s.BodyBytes = max(1, min(s.BodyBytes, s.largestBody()))
	}
}

// largestBody is the largest body that fits a record of the store.
func (s *Setup) largestBody() int { return s.storeOptions(0).MaxRecord - recordRoom }

// Validate reports what no run can be made of: numbers of the world out of range, and
// options that the broker, its store or the controller refuses, in their own words.
func (s *Setup) Validate() error {
	for _, x := range []struct {
		name          string
		value, lo, hi int
	}{
		{"groups", s.Groups, 1, maxGroups},
		{"replicas", s.Replicas, 1, maxReplicas},
		{"controllers", s.Controllers, 1, maxControllers},
		{"namesrvs", s.Namesrvs, 1, maxNamesrvs},
		{"queues", s.Queues, 1, maxQueues},
		{"clients", s.Clients, minClients, maxClients},
		{"rate", s.Rate, 1, maxRate},
	} {
		if x.value < x.lo || x.value > x.hi {
			return fmt.Errorf("%s %d is not in %d..%d", x.name, x.value, x.lo, x.hi)
		}
	}
	if s.Reserved < 0 {
		return fmt.Errorf("fileReservedTime %v is negative; 0 means the default", s.Reserved)
	}
	store := s.storeOptions(0)
	store.Entropy = strings.NewReader("") // each life brings its own
	if err := s.BrokerOptions(0, BrokerNode(0, 0)).Validate(); err != nil {
		return err
	}
	if err := store.Validate(); err != nil {
		return err
	}
	if most := s.largestBody(); s.BodyBytes < 1 || s.BodyBytes > most {
		return fmt.Errorf("bodyBytes %d is not in 1..%d, what a record can hold with mappedFileSizeCommitLog %d", s.BodyBytes, most, s.SegmentBytes)
	}
	return s.controllerOptions(0).Validate()
}
