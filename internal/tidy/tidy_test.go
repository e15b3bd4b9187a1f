package tidy

import (
	"go/token"
	"strings"
	"testing"
)

const root = "../.."

// TestRepository holds the repository to its rules.
func TestRepository(t *testing.T) {
	files, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d Go files found under %s", len(files), root)
	}
	problems, err := CheckFolders(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		problems = append(problems, CheckSizes(f)...)
		problems = append(problems, CheckDocs(f)...)
		problems = append(problems, CheckWords(f)...)
		problems = append(problems, CheckDeterminism(f)...)
		problems = append(problems, CheckImports(f)...)
	}
	problems = append(problems, CheckPackageDocs(files)...)
	maps, err := CheckMapRanges(root, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(problems, maps...) {
		t.Error(p)
	}
}

// TestRulesCatch shows that each rule can fail.
func TestRulesCatch(t *testing.T) {
	long := "package broker\n\nfunc f() {\n" + strings.Repeat("\tg()\n", MaxFunctionLines) + "}\n"
	cases := []struct {
		name, path, src string
		check           func(*File) []Problem
		want            string
	}{
		{"long function", "node/broker/a.go", long, CheckSizes, "function f has"},
		{"undocumented func", "sim/a.go", "package sim\nfunc F() {}\n", CheckDocs, "F has no doc"},
		{"undocumented type", "sim/a.go", "package sim\ntype T int\n", CheckDocs, "type T has no doc"},
		{"undocumented const", "sim/a.go", "package sim\nconst C = 1\n", CheckDocs, "C has no doc"},
		{"unfinished", "sim/a.go", "package sim\n// TODO later\n", CheckWords, "unfinished"},
		{"sleeping test", "sim/a_test.go", "package sim\nfunc f() { time.Sleep(1) }\n", CheckWords, "does not sleep"},
		{"clock", "node/broker/a.go", "package broker\nimport \"time\"\nvar x = time.Now()\n", CheckDeterminism, "time.Now"},
		{"goroutine", "sim/a.go", "package sim\nfunc f() { go f() }\n", CheckDeterminism, "go statement"},
		{"select", "sim/a.go", "package sim\nfunc f() { select {} }\n", CheckDeterminism, "select"},
		{"channel", "netsim/a.go", "package netsim\nvar c chan int\n", CheckDeterminism, "channel"},
		{"lock", "node/client/a.go", "package client\nimport \"sync\"\nvar m sync.Mutex\n", CheckDeterminism, "import sync"},
		{"random", "sim/a.go", "package sim\nimport \"math/rand\"\nvar _ = rand.Int\n", CheckDeterminism, "math/rand"},
		{"pointer", "sim/a.go", "package sim\nvar f = \"%p\"\n", CheckDeterminism, "%p"},
		{"excuse without reason", "sim/a.go", "package sim\nvar c chan int // tidy:allow\n", CheckDeterminism, "channel"},
		{"checker knows no node", "checker/a.go", "package checker\nimport _ \"lockstep/node/broker\"\n", CheckImports, "may not import"},
		{"sim knows no host", "sim/a.go", "package sim\nimport _ \"lockstep/node/host\"\n", CheckImports, "may not import"},
		{"machine knows no sim", "node/broker/a.go", "package broker\nimport _ \"lockstep/sim\"\n", CheckImports, "may not import"},
		{"foreign module", "node/broker/a.go", "package broker\nimport _ \"example.com/x\"\n", CheckImports, "may not import"},
		{"unknown folder", "extra/a.go", "package extra\n", CheckImports, "no rule"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse(token.NewFileSet(), c.path, []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			got := c.check(f)
			if len(got) != 1 || !strings.Contains(got[0].Text, c.want) {
				t.Errorf("got %v, want one problem with %q", got, c.want)
			}
		})
	}
}

// TestMapRangeCaught shows that the typed rule can fail, and that an excuse with
// a reason silences it.
func TestMapRangeCaught(t *testing.T) {
	const src = "package ha\nvar m map[int]int\nfunc f() {\n\tfor range m {\n\t}\n" +
		"\t// tidy:unordered counting only\n\tfor range m {\n\t}\n}\n"
	f, err := Parse(token.NewFileSet(), "internal/ha/a.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	got, err := mapRanges("lockstep/internal/ha", []*File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Pos != "internal/ha/a.go:4" {
		t.Errorf("got %v, want one problem at line 4", got)
	}
}
