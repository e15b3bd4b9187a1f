package tidy

import (
	"go/ast"
	"go/token"
	"strings"
)

// Deterministic lists the folders whose packages must give the same run for the
// same seed (DESIGN section 3). node/host is the real world and exempt; so are
// the blocking halves of storage.
var Deterministic = []string{"internal/ha", "internal/prng", "internal/event", "internal/decide", "node/broker", "node/controller", "node/namesrv",
	"node/client", "node/wire", "node/host/maelstrom/session", "sim", "netsim", "node"}

// bannedImports may not appear in deterministic packages.
var bannedImports = map[string]string{
	"sync": "machines have no locks", "sync/atomic": "machines have no locks", "math/rand": "use internal/prng",
	"math/rand/v2": "use internal/prng", "os": "machines touch no files", "net": "machines touch no sockets",
	"context": "machines have no waits", "crypto/rand": "use internal/prng or what the host gives",
	"unsafe": "pointers must not be seen",
}

// allowedTime are the names of package time that hold no clock.
var allowedTime = map[string]bool{"Duration": true, "Nanosecond": true, "Microsecond": true, "Millisecond": true,
	"Second": true, "Minute": true, "Hour": true, "ParseDuration": true}

// IsDeterministic reports whether the package folder is under the bans.
func IsDeterministic(dir string) bool {
	for _, d := range Deterministic {
		if dir == d || d != "node" && strings.HasPrefix(dir, d+"/") {
			return true
		}
	}
	return false
}

// excused reports whether the line of pos carries a comment "tidy:word reason".
func (f *File) excused(pos token.Pos, word string) bool {
	line := f.Fset.Position(pos).Line
	for _, g := range f.AST.Comments {
		for _, c := range g.List {
			l := f.Fset.Position(c.Pos()).Line
			rest, ok := strings.CutPrefix(strings.TrimPrefix(c.Text, "//"), " tidy:"+word+" ")
			if ok && len(strings.TrimSpace(rest)) > 8 && (l == line || l == line-1) {
				return true
			}
		}
	}
	return false
}

// CheckDeterminism reports constructs that a deterministic package may not use.
// Map iteration is checked by CheckMapRanges, which needs types.
func CheckDeterminism(f *File) []Problem {
	if f.Test() || !IsDeterministic(f.Dir()) {
		return nil
	}
	var out []Problem
	for _, im := range f.AST.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		if why := bannedImports[path]; why != "" && !f.excused(im.Pos(), "import") {
			out = append(out, f.problem(im.Pos(), "determinism", "import %s: %s", path, why))
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if what := bannedNode(n); what != "" && !f.excused(n.Pos(), "allow") {
			out = append(out, f.problem(n.Pos(), "determinism", "%s", what))
		}
		return true
	})
	return out
}

func bannedNode(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement: machines have one thread"
	case *ast.SelectStmt:
		return "select: machines have no channels"
	case *ast.ChanType:
		return "channel: machines have no channels"
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		if ok && x.Name == "time" && x.Obj == nil && !allowedTime[n.Sel.Name] {
			return "time." + n.Sel.Name + ": the clock comes with each fact"
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING && strings.Contains(n.Value, "%p") {
			return "%p: pointers must not be seen"
		}
	}
	return ""
}
