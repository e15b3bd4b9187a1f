// Package tidy is the repository's own rules as a test: who may import whom,
// what deterministic packages may not use, how long a function may be, and that
// every exported name says what it is. It has no use at run time.
package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of size, in lines. Tests are exempt.
const (
	MaxFileLines     = 800
	MaxFunctionLines = 70
)

// Problem is one broken rule at one place.
type Problem struct {
	Pos  string // file:line
	Rule string
	Text string
}

// String prints the problem as compilers do.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Pos, p.Rule, p.Text) }

// File is one parsed Go file of the repository.
type File struct {
	Path string // slash-separated, relative to the root
	Fset *token.FileSet
	AST  *ast.File
	Src  []byte
}

// Dir is the package folder of the file.
func (f *File) Dir() string { return filepath.ToSlash(filepath.Dir(f.Path)) }

// Test reports whether the file is a test file.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

func (f *File) problem(pos token.Pos, rule, format string, args ...any) Problem {
	p := f.Fset.Position(pos)
	return Problem{fmt.Sprintf("%s:%d", f.Path, p.Line), rule, fmt.Sprintf(format, args...)}
}

// Load parses every Go file under root, leaving out hidden folders, testdata
// and nested modules.
func Load(root string) ([]*File, error) {
	fset := token.NewFileSet()
	var files []*File
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, path, d.Name())
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f, err := Parse(fset, filepath.ToSlash(rel), src)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

func skipDir(root, path, name string) error {
	if path == root {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "out" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// Parse parses one file for checking.
func Parse(fset *token.FileSet, path string, src []byte) (*File, error) {
	tree, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return &File{Path: path, Fset: fset, AST: tree, Src: src}, nil
}

// Folders are the only top-level folders of the repository.
var Folders = []string{".ci", "chaos", "checker", "cmd", "docs", "internal", "netsim", "node", "scenarios", "sim", "storage"}

// CheckFolders reports top-level folders that do not belong. Build output that
// git ignores may stay.
func CheckFolders(root string) ([]Problem, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var out []Problem
	for _, e := range entries {
		ignored := e.Name() == ".git" || e.Name() == "bin" || e.Name() == "out"
		if e.IsDir() && !ignored && !slices.Contains(Folders, e.Name()) {
			out = append(out, Problem{e.Name(), "folders", "top-level folders are " + strings.Join(Folders, " ")})
		}
	}
	return out, nil
}

// CheckSizes reports files and functions that are too long.
func CheckSizes(f *File) []Problem {
	if f.Test() {
		return nil
	}
	var out []Problem
	if n := strings.Count(string(f.Src), "\n"); n > MaxFileLines {
		out = append(out, f.problem(f.AST.Package, "size", "%d lines, at most %d", n, MaxFileLines))
	}
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := f.Fset.Position(fn.End()).Line - f.Fset.Position(fn.Pos()).Line + 1
		if n > MaxFunctionLines {
			out = append(out, f.problem(fn.Pos(), "size", "function %s has %d lines, at most %d", fn.Name.Name, n, MaxFunctionLines))
		}
	}
	return out
}
