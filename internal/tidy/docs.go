package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// CheckDocs reports exported names without a doc comment.
func CheckDocs(f *File) []Problem {
	if f.Test() {
		return nil
	}
	var out []Problem
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				out = append(out, f.problem(d.Pos(), "doc", "%s has no doc comment", d.Name.Name))
			}
		case *ast.GenDecl:
			out = append(out, f.genDocs(d)...)
		}
	}
	return out
}

// exportedReceiver reports whether a method can be reached from outside.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func (f *File) genDocs(d *ast.GenDecl) []Problem {
	var out []Problem
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				out = append(out, f.problem(s.Pos(), "doc", "type %s has no doc comment", s.Name.Name))
			}
		case *ast.ValueSpec:
			// A comment on the group explains its members (Go's own habit).
			if d.Doc != nil || s.Doc != nil || s.Comment != nil || d.Tok == token.IMPORT {
				continue
			}
			for _, n := range s.Names {
				if n.IsExported() {
					out = append(out, f.problem(n.Pos(), "doc", "%s has no doc comment", n.Name))
				}
			}
		}
	}
	return out
}

// CheckPackageDocs reports packages without a package comment.
func CheckPackageDocs(files []*File) []Problem {
	documented, first := map[string]bool{}, map[string]*File{}
	var dirs []string
	for _, f := range files {
		if f.Test() {
			continue
		}
		if first[f.Dir()] == nil {
			first[f.Dir()] = f
			dirs = append(dirs, f.Dir())
		}
		if f.AST.Doc != nil {
			documented[f.Dir()] = true
		}
	}
	var out []Problem
	for _, d := range dirs {
		if !documented[d] {
			out = append(out, Problem{first[d].Path + ":1", "doc", "package has no package comment"})
		}
	}
	return out
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b|(?i)not implemented|unimplemented`)

// CheckWords reports unfinished work and sleeping tests.
func CheckWords(f *File) []Problem {
	if f.Dir() == "internal/tidy" {
		return nil
	}
	var out []Problem
	for i, line := range strings.Split(string(f.Src), "\n") {
		pos := f.Path + ":" + strconv.Itoa(i+1)
		if w := unfinished.FindString(line); w != "" {
			out = append(out, Problem{pos, "words", "unfinished work: " + w})
		}
		if f.Test() && strings.Contains(line, "time.Sleep(") {
			out = append(out, Problem{pos, "words", "a test waits for a condition, it does not sleep"})
		}
	}
	return out
}
