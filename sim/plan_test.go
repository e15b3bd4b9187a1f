package sim

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// samplePlan uses every form of entry.
const samplePlan = `lockstep plan 1
drill A3-master-crash
noise seed 18446744073709551615
option net.codec true
option "odd name" "a value with \"quotes\" and spaces"
fault crash b1 at 12.5s for 3s
fault power-loss b1 on Serving#2@b1 after 50ms disk 3 for 1s arg -1
fault cut b1,c1|b2,b3 at 10s for 5s
fault cut b1>b2,b3 at 10s
fault cut ring:c1,c2,c3,c4,c5 at 1m0s for 5s
fault delay a|b|c at 1h2m3.000000004s for 1ns arg 5
fault action - on Mark#1 saying "promotion begun" text "switch # g1"
fault disk-eio b1,b2 at 0s arg 2 text sync:commitlog
choose net.delay b1>b2/3/310/4 -1500000
choose net.delay *>b2/*/-5/4..9 7
benign net.lost *>*/*/*/*
end
`

func TestPlanText(t *testing.T) {
	p, err := ParsePlan(samplePlan)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Format(); got != samplePlan {
		t.Fatalf("printed:\n%s", got)
	}
	if v, ok := p.Setting("odd name"); !ok || v != `a value with "quotes" and spaces` {
		t.Fatalf("%q", v)
	}
	p.Set("net.codec", "false")
	p.Set("new", "1")
	if v, _ := p.Setting("net.codec"); v != "false" || len(p.Settings) != 3 {
		t.Fatalf("%+v", p.Settings)
	}
	if f := p.Faults[1]; f.When.K != 2 || f.When.Node != "b1" || f.When.Delay != 50*ms || f.When.DiskStep != 3 || f.Arg != -1 {
		t.Fatalf("%+v", f)
	}
	if _, err := ParsePlan("# comment\n\n  lockstep plan 1 # yes\nnoise benign\r\nend # all\n"); err != nil {
		t.Fatal(err)
	}
}

func TestPlanErrorsNameTheLine(t *testing.T) {
	head := "lockstep plan 1\nnoise benign\n"
	for _, c := range []struct{ text, want string }{
		{"", `plan lacks its "lockstep plan 1" or its "noise" line`},
		{"lockstep plan 2\nnoise benign", `line 1: want "lockstep plan 1" first`},
		{"lockstep plan 1\n", `plan lacks`},
		{head + "noise seed 1", "line 3: a second noise line"},
		{"lockstep plan 1\nnoise seed x", "line 2: "},
		{"lockstep plan 1\nnoise loud", "want: noise seed N"},
		{head + "drill", "want: drill NAME"},
		{head + "option a", "want: option NAME VALUE"},
		{head + "wish x", `unknown entry "wish"`},
		{head + "fault boom b1 at 1s", `unknown fault kind "boom"`},
		{head + "fault crash b1 at", `"at" lacks its value`},
		{head + "fault crash b1 at soon", "at soon"},
		{head + "fault crash b1 at -1s", "outside"},
		{head + "fault crash - at 1s", "too few targets"},
		{head + "fault crash a:b at 1s", `node name "a:b"`},
		{head + "fault crash b1 until 1s", "want at, on, saying"},
		{head + "fault crash b1 on Nothing#1", `unknown event "Nothing"`},
		{head + "fault crash b1 on Serving", "want EVENT#K"},
		{head + "fault crash b1 on Serving#0", "with K from 1"},
		{head + "fault crash b1 at 1s saying x", "with K from 1"},
		{head + "fault cut a at 1s", "too few targets"},
		{head + "fault cut a>b>c at 1s", "want sides"},
		{head + "fault cut ring:a|b at 1s", "want sides"},
		{head + "fault pause b1 at 1s disk 2", `"disk" is for a crash`},
		{head + "fault crash b1,b2 at 1s disk 2", `"disk" is for a crash`},
		{head + "fault slow-cpu b1 at 1s", "arg 0 is outside 1..10000"},
		{head + "fault loss a|b at 1s arg 1001", "arg 1001 is outside 1..1000"},
		{head + "fault power-loss b1 at 1s arg 1", "arg 1 is outside -2..0"},
		{head + "choose net.delay x 1", "want FROM>TO/SESSION/KIND/N"},
		{head + "choose net.delay a>b/1/2/3 one", "value: "},
		{head + "choose net.delay a>b/1/2/3", "want: choose SITE KEY VALUE"},
		{head + "benign net.delay", "want: choose SITE KEY VALUE"},
		{head, `plan lacks its last line, "end"`},
		{head + "fault crash b1 at 1s\n", "if it is whole, add the line"},
		{head + "end now", "want: end"},
		{head + "end\nfault crash b1 at 1s", "line 4: nothing may follow the end line"},
		{head + `option "a b`, "a quote is not closed"},
	} {
		_, err := ParsePlan(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestPlanCutAnywhere: no beginning of a plan is a plan, but for the last line's end.
func TestPlanCutAnywhere(t *testing.T) {
	for n := range len(samplePlan) - 1 {
		if _, err := ParsePlan(samplePlan[:n]); err == nil {
			t.Errorf("the first %d bytes of a plan are read as a plan", n)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add(samplePlan)
	f.Add("lockstep plan 1\nnoise benign\nfault cut a,b|c at 1s for 2s arg 3\nend\n")
	f.Add("lockstep plan 1\nnoise seed 7\nfault action x on Mark#3@n saying \"\\x00\" text \"\"\nend\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlan(text)
		if err != nil {
			return
		}
		out := p.Format()
		q, err := ParsePlan(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if again := q.Format(); again != out {
			t.Fatalf("printed differently:\n%s\n%s", out, again)
		}
		if !reflect.DeepEqual(p.Faults, q.Faults) || !slices.Equal(p.Settings, q.Settings) {
			t.Fatal("read differently")
		}
		for _, x := range p.Faults {
			if err := x.Validate(); err != nil {
				t.Fatalf("a parsed fault is not valid: %v", err)
			}
		}
	})
}

func TestOptionsText(t *testing.T) {
	seen := map[string]map[string]bool{}
	for seed := range uint64(200) {
		o := DrawOptions(seed)
		s := o.Settings()
		var back Options
		back = DefaultOptions()
		other, err := back.Apply(append(s, Setting{"drill.clients", "4"}))
		if err != nil || len(other) != 1 || other[0].Name != "drill.clients" {
			t.Fatalf("%v %v", other, err)
		}
		if back != o {
			t.Fatalf("options change when printed and read:\n%+v\n%+v", o, back)
		}
		for _, x := range s {
			if seen[x.Name] == nil {
				seen[x.Name] = map[string]bool{}
			}
			seen[x.Name][x.Value] = true
		}
	}
	for _, f := range fields() {
		want := slices.Clone(f.choices)
		slices.Sort(want)
		if got := len(seen[f.name]); got != len(slices.Compact(want)) {
			t.Errorf("%s: %d of %v were drawn", f.name, got, want)
		}
	}
	o := DefaultOptions()
	d := o
	for _, f := range fields() {
		if err := f.set(&d, f.choices[0]); err != nil {
			t.Fatal(err)
		}
	}
	if d != o {
		t.Fatalf("the first choices are not the defaults:\n%+v\n%+v", d, o)
	}
	for _, bad := range []Setting{{"net.codec", "maybe"}, {"loop.batch", "-1"}, {"net.delay", "1,2"}, {"net.delay", "5,4,0,0"}, {"net.delay", "1,2,1,5"}, {"net.delay", "a,b,c,d"}} {
		if _, err := o.Apply([]Setting{bad}); err == nil || !strings.Contains(err.Error(), bad.Name) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
