package tidy

import (
	"slices"
	"strings"
)

// rule says what the packages under a folder may import beside the standard
// library and lockstep/internal.
type rule struct {
	dir   string
	own   []string // folders of this module (prefixes)
	other []string // module path prefixes
}

// importRules is the table of DESIGN section 2, longest folder first. The first
// rule whose folder holds the package decides.
var importRules = []rule{
	{"internal", nil, nil},
	{"storage", []string{"storage"}, []string{"github.com/cockroachdb/pebble", "golang.org/x/sys", "go.etcd.io/raft", "google.golang.org/protobuf"}},
	{"node/wire", []string{"node/wire"}, nil},
	{"node/controller", []string{"node", "storage"}, []string{"go.etcd.io/raft", "google.golang.org/protobuf"}},
	{"node/raftlog", []string{"node", "storage"}, []string{"go.etcd.io/raft"}},
	{"node/host", []string{"node", "storage"}, []string{"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/prometheus", "golang.org/x/sys"}},
	{"node", []string{"node", "storage"}, nil},
	{"netsim", []string{"netsim", "node", "node/wire"}, nil},
	{"sim", []string{"sim", "netsim", "node", "storage"}, nil},
	{"checker", []string{"checker"}, []string{"github.com/anishathalye/porcupine"}},
	{"scenarios", []string{"scenarios", "sim", "netsim", "checker", "node", "storage"}, nil},
	{"chaos/live", []string{"chaos", "scenarios", "sim", "checker", "node", "storage"}, nil},
	{"chaos", []string{"chaos", "scenarios", "checker", "node", "storage"}, []string{"github.com/hanwen/go-fuse", "golang.org/x/sys"}},
	{"cmd", []string{""}, []string{""}},
}

// CheckImports reports imports that the folder table does not allow. Tests may
// also use the test libraries and any package of the module below cmd.
func CheckImports(f *File) []Problem {
	i := slices.IndexFunc(importRules, func(r rule) bool { return under(f.Dir(), r.dir) })
	if i < 0 {
		return []Problem{{f.Path + ":1", "imports", "no rule for this folder"}}
	}
	r := importRules[i]
	var out []Problem
	for _, im := range f.AST.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		if !allowed(r, f, path) {
			out = append(out, f.problem(im.Pos(), "imports", "%s may not import %s", r.dir, path))
		}
	}
	return out
}

// testLibraries may be imported by tests everywhere. etcd-raft is among them
// because the simulator's tests show that its randomness is the world's.
var testLibraries = []string{"pgregory.net/rapid", "github.com/google/go-cmp/cmp", "go.etcd.io/raft/v3"}

func allowed(r rule, f *File, path string) bool {
	own, isOwn := strings.CutPrefix(path, "lockstep/")
	switch {
	case isOwn && under(own, "internal"):
		return true
	case isOwn && under(own, "node/host") && !under(f.Dir(), "node/host") && !under(f.Dir(), "chaos") && !under(f.Dir(), "cmd"):
		return false
	case isOwn:
		return f.Test() && !under(own, "cmd") || slices.ContainsFunc(r.own, func(d string) bool { return under(own, d) })
	case !strings.Contains(strings.Split(path, "/")[0], "."):
		return true // standard library
	case f.Test() && slices.ContainsFunc(testLibraries, func(m string) bool { return under(path, m) }):
		return true
	}
	return slices.ContainsFunc(r.other, func(m string) bool { return under(path, m) })
}

// under reports whether path is dir or inside it; dir "" holds everything.
func under(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir+"/")
}
