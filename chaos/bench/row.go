package bench

import "time"

// Row is one aim and what was measured of it.
type Row struct {
	Name     string  `json:"name"`
	What     string  `json:"what"`
	Unit     string  `json:"unit"`
	Measured float64 `json:"measured"`
	Aim      float64 `json:"aim"`
	// Less says that smaller is better: the floor is then three times the aim.
	Less bool `json:"less,omitempty"`
	// Baseline is what the minimal server did in the same run, 0 where there is none.
	Baseline float64 `json:"baseline,omitempty"`
	P50      float64 `json:"p50Millis,omitempty"`
	P99      float64 `json:"p99Millis,omitempty"`
	// BaselineP99 is the minimal server's.
	BaselineP99 float64 `json:"baselineP99Millis,omitempty"`
	// CPU is the processor time of all daemons a message, microseconds.
	CPU float64 `json:"cpuMicros,omitempty"`
	// Busy is the share of the machine's processors in use meanwhile, by anybody.
	Busy float64 `json:"busy,omitempty"`
	Note string  `json:"note,omitempty"`
}

// Floor is the worst that passes: a third of the aim.
func (r *Row) Floor() float64 {
	if r.Less {
		return r.Aim * 3
	}
	return r.Aim / 3
}

// Passed reports whether the row keeps its floor.
func (r *Row) Passed() bool {
	if r.Less {
		return r.Measured <= r.Floor()
	}
	return r.Measured >= r.Floor()
}

// Met reports whether the row reaches its aim.
func (r *Row) Met() bool {
	if r.Less {
		return r.Measured <= r.Aim
	}
	return r.Measured >= r.Aim
}

// Ratio is measured by baseline, 0 without one.
func (r *Row) Ratio() float64 {
	if r.Baseline == 0 {
		return 0
	}
	return r.Measured / r.Baseline
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
