package ha

import "testing"

func epochs(pairs ...int64) Epochs {
	var out Epochs
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, EpochStart{Epoch: MasterEpoch(pairs[i]), Start: LogOffset(pairs[i+1])})
	}
	return out
}

// TestConsistentPoint is the table of worked examples of the HA contract 4.2,
// with the right answers where the incumbent's are wrong.
func TestConsistentPoint(t *testing.T) {
	cases := []struct {
		name          string
		slave         Epochs
		slaveEnd      LogOffset
		master        Epochs
		masterEnd     LogOffset
		want          LogOffset
		wantNotCommon bool
	}{
		{"local tail is dropped", epochs(1, 0), 300, epochs(1, 0, 2, 200), 500, 200, false},
		{"epochs that start at the same place", epochs(1, 0, 2, 100), 150, epochs(1, 0, 3, 100), 200, 100, false},
		{"prefix of the newer epoch", epochs(1, 0, 2, 100), 150, epochs(1, 0, 2, 100, 3, 150), 400, 150, false},
		{"expired prefix", epochs(2, 100), 300, epochs(1, 0, 2, 100), 300, 300, false},
		{"nothing in common", epochs(1, 0), 50, epochs(3, 400, 4, 600), 700, 0, true},
		{"epoch without data kept on the wire", epochs(2, 100), 150, epochs(1, 0, 2, 100, 3, 100), 150, 100, false},
		{"empty slave", nil, 0, epochs(1, 0), 10, 0, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ConsistentPoint(c.slave, c.slaveEnd, c.master, c.masterEnd)
			if ok == c.wantNotCommon || got != c.want {
				t.Errorf("got %d, %v; want %d", got, ok, c.want)
			}
		})
	}
}

func TestEpochs(t *testing.T) {
	e := epochs(1, 0, 3, 100, 4, 250)
	if !e.Valid() || epochs(2, 0, 1, 5).Valid() || epochs(1, 9, 2, 5).Valid() || epochs(0, 0).Valid() {
		t.Error("order of epochs is not told")
	}
	if got := e.CutAt(250); len(got) != 2 || got.Last().Epoch != 3 {
		t.Errorf("cut at the start of epoch 4 leaves %v", got)
	}
	if got := e.CutAt(251); len(got) != 3 {
		t.Errorf("cut inside epoch 4 leaves %v", got)
	}
	cur, stop, ok := e.At(100, 300)
	if !ok || cur.Epoch != 3 || stop != 250 {
		t.Errorf("byte 100 is in %v until %d", cur, stop)
	}
	if cur, stop, _ = e.At(299, 300); cur.Epoch != 4 || stop != 300 {
		t.Errorf("byte 299 is in %v until %d", cur, stop)
	}
	if _, _, ok := epochs(2, 50).At(49, 100); ok {
		t.Error("a byte below the first epoch has one")
	}
}

func TestIDs(t *testing.T) {
	s := NewIDs(3, 1, 2, 3)
	if s.String() != "{1 2 3}" || !s.Has(2) || s.Has(4) {
		t.Errorf("set %v", s)
	}
	if got := s.Without(2).With(5).Union(NewIDs(9)); got.String() != "{1 3 5 9}" {
		t.Errorf("got %v", got)
	}
	if s.String() != "{1 2 3}" {
		t.Errorf("operations changed the set: %v", s)
	}
	if (Authority{Broker: 1}).Valid() || !(Authority{Broker: 1, Epoch: 1}).Valid() {
		t.Error("authority without an epoch is valid")
	}
}
