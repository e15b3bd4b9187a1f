package decide

import "testing"

var siteTest = NewSite("test.site", "ns", 3, 1000)

func TestKeyedByNameNotByIndex(t *testing.T) {
	d1, d2 := New(7, false, nil), New(7, false, nil)
	a1, b1 := d1.Actor("a"), d1.Actor("b")
	d2.Actor("new") // one more node
	a2, b2 := d2.Actor("a"), d2.Actor("b")
	dist := Dist{Lo: 0, Hi: 1 << 40}
	for n := range int64(100) {
		x := d1.Decide(siteTest, Key{From: a1, To: b1, Session: 3, Kind: 310, N: n}, dist)
		y := d2.Decide(siteTest, Key{From: a2, To: b2, Session: 3, Kind: 310, N: n}, dist)
		if x != y {
			t.Fatalf("another node shifted choice %d: %d, then %d", n, x, y)
		}
	}
	if d1.Actor("a") != a1 {
		t.Fatal("an actor has one index")
	}
}

func TestEveryPartOfAKeyCounts(t *testing.T) {
	d := New(7, false, nil)
	base := Key{From: d.Actor("a"), To: d.Actor("b"), Session: 1, Kind: 2, N: 3}
	seen := map[uint64]Key{d.Bits(siteTest, base): base}
	for _, k := range []Key{{base.To, base.From, 1, 2, 3}, {base.From, base.From, 1, 2, 3}, {base.From, base.To, 2, 2, 3},
		{base.From, base.To, 1, 1, 3}, {base.From, base.To, 1, 2, 4}, {base.From, base.To, 1, -2, 3}, {base.From, base.To, 1, 2, -3}} {
		v := d.Bits(siteTest, k)
		if old, ok := seen[v]; ok {
			t.Fatalf("%v and %v share a value", old, k)
		}
		seen[v] = k
	}
	if d.Bits(NewSite("other", "", 0, 1), base) == d.Bits(siteTest, base) || New(8, false, nil).Bits(siteTest, Key{}) == d.Bits(siteTest, Key{}) {
		t.Fatal("site and seed count too")
	}
}

func TestDistStaysInside(t *testing.T) {
	d := New(1, false, nil)
	tails, ones := 0, 0
	for n := range int64(20000) {
		v := d.Decide(siteTest, Key{N: n}, Dist{Lo: 10, Hi: 20, Tail: 100, TailPermille: 100})
		if v < 10 || v > 100 {
			t.Fatal(v)
		}
		if v > 20 {
			tails++
		}
		ones += int(d.Decide(siteTest, Key{Kind: 1, N: n}, Chance(250)))
	}
	if tails < 1600 || tails > 2300 || ones < 4600 || ones > 5400 {
		t.Fatalf("tails %d of about 1980, chances %d of about 5000", tails, ones)
	}
	if (Dist{Lo: 5, Hi: 5}).Draw(99) != 5 || (Dist{Lo: 2, Hi: 4, Tail: 8}).Scale(3, 2) != (Dist{Lo: 3, Hi: 6, Tail: 12}) {
		t.Fatal("fixed value or scale")
	}
}

func TestBenignNeedsNoSeed(t *testing.T) {
	a, b := New(1, true, nil), New(2, true, nil)
	for n := range int64(10) {
		if x, y := a.Decide(siteTest, Key{N: n}, Chance(900)), b.Decide(siteTest, Key{N: n}, Chance(900)); x != 3 || y != 3 {
			t.Fatal(x, y)
		}
	}
}

func TestOverrides(t *testing.T) {
	pattern := func(s string) Pattern {
		p, err := ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	d := New(1, false, []Override{
		{Site: "test.site", Keys: pattern("a>b/1/2/3"), Value: 77},
		{Site: "test.site", Keys: pattern("a>*/*/*/*"), Benign: true},
		{Site: "test.site", Keys: pattern("a>*/*/*/10..20"), Value: 88},
		{Site: "never", Keys: pattern("*"), Value: 1},
	})
	a, b := d.Actor("a"), d.Actor("b")
	ask := func(k Key) int64 { return d.Decide(siteTest, k, Dist{Lo: 500, Hi: 600}) }
	if v := ask(Key{a, b, 1, 2, 3}); v != 77 {
		t.Fatal(v)
	}
	if v := ask(Key{a, b, 1, 2, 4}); v != 3 {
		t.Fatal(v)
	}
	if v := ask(Key{a, b, 1, 2, 15}); v != 88 {
		t.Fatal("the last pattern wins", v)
	}
	if v := ask(Key{b, a, 1, 2, 3}); v < 500 {
		t.Fatal(v)
	}
	if s := d.Stale(); len(s) != 1 || s[0].Site != "never" {
		t.Fatalf("%+v", s)
	}
}

func TestRecordAndExact(t *testing.T) {
	d := New(5, false, nil)
	d.Record()
	a, b := d.Actor("a"), d.Actor("b")
	dist := Dist{Lo: 0, Hi: 1000}
	var keys []Key
	var want []int64
	for n := range int64(50) {
		k := Key{a, b, uint32(n % 3), int32(-n), n}
		keys, want = append(keys, k), append(want, d.Decide(siteTest, k, dist))
	}
	var over []Override
	for _, c := range d.Recorded() {
		o := d.Exact(c)
		p, err := ParsePattern(o.Keys.String())
		if err != nil || p != o.Keys {
			t.Fatalf("%s: %v", o.Keys, err)
		}
		over = append(over, o)
	}
	e := New(0, true, over)
	e.Actor("zzz") // other indices
	a, b = e.Actor("a"), e.Actor("b")
	for i, k := range keys {
		k.From, k.To = a, b
		if v := e.Decide(siteTest, k, dist); v != want[i] {
			t.Fatalf("%d: %d, want %d", i, v, want[i])
		}
	}
	if text := d.Describe(Choice{siteTest, keys[1], 9}); text != "test.site a>b/1/-1/1 = 9ns" {
		t.Fatal(text)
	}
}

func BenchmarkDecide(b *testing.B) {
	d := New(5, false, nil)
	k := Key{From: d.Actor("a"), To: d.Actor("b")}
	b.ReportAllocs()
	for b.Loop() {
		k.N++
		d.Decide(siteTest, k, Dist{Lo: 0, Hi: 1000})
	}
}
