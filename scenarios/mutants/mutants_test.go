package mutants

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"lockstep/scenarios"
)

// TestMutantsApply: every mutant fits the code of today, changes it, the result
// still parses, and the drills that should kill it exist.
func TestMutantsApply(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		if seen[m.Name] || m.Name == "" || m.Rule == "" || m.Why == "" || len(m.Drills) == 0 || len(m.edits()) == 0 {
			t.Errorf("mutant %q is incomplete or named twice", m.Name)
		}
		seen[m.Name] = true
		texts, err := m.Apply("../..")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range m.Drills {
			if _, err := scenarios.Find(d); err != nil {
				t.Errorf("mutant %s: %v", m.Name, err)
			}
		}
		for _, e := range m.edits() {
			if e.Old == e.New || e.Old == "" {
				t.Errorf("mutant %s has an edit of %s that changes nothing", m.Name, e.File)
			}
		}
		for file, text := range texts {
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
				t.Errorf("mutant %s does not parse: %v", m.Name, err)
			}
		}
	}
}

// TestDefences: each of the six defences against split brain (chapter 13.9.1) has
// a mutant that removes it.
func TestDefences(t *testing.T) {
	for _, rule := range []string{
		"13.9.1 start fence", "13.9.1 rising epochs", "13.9.1 restricted election", "13.9.1 log alignment", "13.9.1 route convergence", "13.9.1 write quorum",
	} {
		found := false
		for _, m := range All() {
			found = found || m.Rule == rule
		}
		if !found {
			t.Errorf("no mutant removes %s", rule)
		}
	}
}

// TestApply is the ways an edit can fit.
func TestApply(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"a.go": "one two two", "b.go": "three"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := Mutant{Name: "m", File: "a.go", Old: "one", New: "two", Edits: []Edit{{"a.go", "two two two", "done"}, {"b.go", "three", "four"}}}
	got, err := good.Apply(root)
	if err != nil || got["a.go"] != "done" || got["b.go"] != "four" {
		t.Errorf("texts %q, %v", got, err)
	}
	for _, bad := range []Mutant{
		{Name: "absent", File: "a.go", Old: "nine"}, {Name: "twice", File: "a.go", Old: "two"},
		{Name: "no file", File: "c.go", Old: "one"}, {Name: "second", File: "b.go", Old: "three", New: "four", Edits: []Edit{{"b.go", "three", "five"}}},
	} {
		if _, err := bad.Apply(root); err == nil {
			t.Errorf("%s applies", bad.Name)
		}
	}
}
