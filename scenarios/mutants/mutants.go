// Package mutants holds named wrong variants of the product. Each is one small
// textual change, or a few that belong together, applied when a drill binary is
// built with go build -overlay, so that product code carries none of them. A sweep
// must kill every mutant: one that survives is a hole in the drills or the judges.
package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Edit is one textual change of a file.
type Edit struct {
	File string // slash-separated path from the repository root
	Old  string // occurs exactly once in File, with the earlier edits made
	New  string
}

// Mutant is one wrong variant.
type Mutant struct {
	Name string // stable, kebab-case
	Rule string // the rule or defence it removes: "P3", "13.9.1 fencing", …
	Why  string // what goes wrong in the world
	// File, Old and New are the change; Edits are more of them, where one alone would
	// leave a second defence standing.
	File  string
	Old   string
	New   string
	Edits []Edit
	// Drills that are expected to kill it, in the order they are tried.
	Drills []string
	// Seeds tried per drill before it counts as surviving.
	Seeds int
}

// DefaultSeeds is how many seeds a mutant may survive in each of its drills.
const DefaultSeeds = 60

var all []Mutant

// add registers mutants; files of this package call it.
func add(ms ...Mutant) bool {
	for _, m := range ms {
		if m.Seeds == 0 {
			m.Seeds = DefaultSeeds
		}
		all = append(all, m)
	}
	return true
}

// All returns every mutant, by name.
func All() []Mutant {
	sort.SliceStable(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// Find returns a mutant by name.
func Find(name string) (Mutant, error) {
	for _, m := range All() {
		if m.Name == name {
			return m, nil
		}
	}
	return Mutant{}, fmt.Errorf("no mutant is called %q; drill mutants --list shows all %d", name, len(all))
}

// edits are all changes, in order.
func (m Mutant) edits() []Edit {
	if m.File == "" {
		return m.Edits
	}
	return append([]Edit{{m.File, m.Old, m.New}}, m.Edits...)
}

// Apply returns the texts of the mutant's files, by path from the root, with the
// changes made. root is the repository. An Old that does not occur exactly once is
// an error: the code has moved on and the mutant must follow it.
func (m Mutant) Apply(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range m.edits() {
		text, have := texts[e.File]
		if !have {
			raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("mutant %s: its text occurs %d times in %s, want once: bring the mutant up to date\n%s", m.Name, n, e.File, e.Old)
		}
		texts[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return texts, nil
}
