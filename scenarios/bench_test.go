package scenarios

import "testing"

// BenchmarkStandardWorld measures simulated seconds per wall second on one core:
// the standard world of two groups, all judges on, without faults.
func BenchmarkStandardWorld(b *testing.B) {
	d, err := Find("S0")
	if err != nil {
		b.Fatal(err)
	}
	simulated := 0.0
	for i := range b.N {
		_, rep, err := Execute(d, uint64(i+1), RunOptions{})
		if err != nil || rep.Verdict != Pass {
			b.Fatalf("seed %d: %v %s", i+1, err, rep.Reason)
		}
		simulated += rep.SimulatedSeconds
	}
	b.ReportMetric(simulated/b.Elapsed().Seconds(), "sim-s/s")
}
