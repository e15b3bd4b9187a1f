package mutants

import (
	"go/parser"
	"go/token"
	"testing"
)

// TestMutantsApply: every mutant fits the code of today, changes it, and the
// result still parses.
func TestMutantsApply(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		if seen[m.Name] || m.Name == "" || m.Rule == "" || m.Why == "" || len(m.Drills) == 0 || m.Old == m.New {
			t.Errorf("mutant %q is incomplete or named twice", m.Name)
		}
		seen[m.Name] = true
		text, err := m.Apply("../..")
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, 0); err != nil {
			t.Errorf("mutant %s does not parse: %v", m.Name, err)
		}
	}
}
