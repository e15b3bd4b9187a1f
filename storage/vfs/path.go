package vfs

import (
	"fmt"
	"io/fs"
	"strings"
)

// maxNameBytes bounds a whole name, as Linux bounds paths.
const maxNameBytes = 4095

// checkName accepts slash-separated names that stay under the root: no leading or
// trailing slash, no "", "." or ".." element, no NUL. "" and "." mean the root.
func checkName(op OpKind, name string) (string, error) {
	if name == "" || name == "." {
		return ".", nil
	}
	if !fs.ValidPath(name) || len(name) > maxNameBytes || strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%s %q: %w: names are slash-separated, relative to the root, without \".\" or \"..\"",
			op, name, fs.ErrInvalid)
	}
	return name, nil
}

// splitName returns the directory ("." for the root) and the last element of name.
func splitName(name string) (dir, base string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return ".", name
}

// joinName is the inverse of splitName.
func joinName(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}

// opError wraps err once with the operation and its object.
func opError(op OpKind, name string, err error) error {
	return fmt.Errorf("%s %s: %w", op, name, err)
}
