package prng

import "testing"

// TestGolden: a seed means the same run for ever, whatever the Go release.
func TestGolden(t *testing.T) {
	s := New(42)
	got := []uint64{s.Uint64(), s.Uint64(), Hash(1, 2, 3), Hash(3, 2, 1), HashString("site"), Mix(0)}
	for i, w := range golden {
		if got[i] != w {
			t.Errorf("value %d is %#x, want %#x", i, got[i], w)
		}
	}
}

func TestRanges(t *testing.T) {
	s := New(7)
	seen := map[int]int{}
	for range 3000 {
		n := s.Intn(3)
		seen[n]++
		if v := s.Between(-2, 2); v < -2 || v > 2 {
			t.Fatalf("%d is outside [-2, 2]", v)
		}
	}
	for n := range 3 {
		if seen[n] < 800 {
			t.Errorf("%d was drawn %d times of 3000", n, seen[n])
		}
	}
	if Range(99, 5, 5) != 5 || Range(99, 5, 1) != 5 {
		t.Error("an empty range does not give its low end")
	}
	p := make([]byte, 13)
	if n, err := s.Read(p); n != 13 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
}

var golden = [...]uint64{0xbdd732262feb6e95, 0x28efe333b266f103, 0xcd8d705991914ea1, 0xd7833c9e6e05a835, 0xa177e5c6803b1eb4, 0xe220a8397b1dcdaf}
