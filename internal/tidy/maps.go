package tidy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
)

// CheckMapRanges reports range statements over maps in deterministic packages:
// their order differs from run to run. A loop whose order cannot be seen says so
// with a comment "tidy:unordered reason" on its line or the one above.
func CheckMapRanges(root string, files []*File) ([]Problem, error) {
	exports, err := exportData(root)
	if err != nil {
		return nil, err
	}
	byDir := map[string][]*File{}
	var dirs []string
	for _, f := range files {
		if f.Test() || !IsDeterministic(f.Dir()) {
			continue
		}
		if byDir[f.Dir()] == nil {
			dirs = append(dirs, f.Dir())
		}
		byDir[f.Dir()] = append(byDir[f.Dir()], f)
	}
	var out []Problem
	for _, d := range dirs {
		p, err := mapRanges("lockstep/"+d, byDir[d], exports)
		if err != nil {
			return nil, err
		}
		out = append(out, p...)
	}
	return out, nil
}

func mapRanges(path string, files []*File, exports map[string]string) ([]Problem, error) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	var trees []*ast.File
	for _, f := range files {
		trees = append(trees, f.AST)
	}
	conf := types.Config{Importer: importer.ForCompiler(files[0].Fset, "gc", func(p string) (io.ReadCloser, error) {
		if exports[p] == "" {
			return nil, fmt.Errorf("no export data for %s", p)
		}
		return os.Open(exports[p])
	})}
	if _, err := conf.Check(path, files[0].Fset, trees, info); err != nil {
		return nil, fmt.Errorf("type-check %s: %w", path, err)
	}
	var out []Problem
	for _, f := range files {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			r, ok := n.(*ast.RangeStmt)
			if !ok || f.excused(r.Pos(), "unordered") {
				return true
			}
			if _, isMap := info.Types[r.X].Type.Underlying().(*types.Map); isMap {
				out = append(out, f.problem(r.Pos(), "determinism", "range over a map: sort the keys, or say why the order cannot be seen (tidy:unordered reason)"))
			}
			return true
		})
	}
	return out, nil
}

// exportData builds the module and returns where the compiler left each
// package's export data.
func exportData(root string) (map[string]string, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	out := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var p struct{ ImportPath, Export string }
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list output: %w", err)
		}
		out[p.ImportPath] = p.Export
	}
}
