package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Errors of names used as what they are not; they match fs.ErrInvalid.
var (
	errIsDir    = invalidName("is a directory")
	errNotDir   = invalidName("not a directory")
	errNotEmpty = invalidName("directory not empty")
)

type invalidName string

func (e invalidName) Error() string        { return string(e) }
func (e invalidName) Is(target error) bool { return target == fs.ErrInvalid }

// errLoop is returned for a directory renamed into itself.
var errLoop = errors.New("directory would contain itself")

// dirOp is one change of names that is not durable yet. A crash keeps it or not; SyncDir
// of a directory it touches makes it durable.
type dirOp struct {
	dir      *inode // where name is linked, or unlinked
	name     string
	node     *inode
	unlink   bool
	from     *inode // rename: directory of the old name, else nil
	fromName string
}

// maxDirOps bounds the names waiting for SyncDir; beyond it the oldest becomes durable by
// itself, as a journal commits in the background.
const maxDirOps = 1024

// apply makes op durable.
func (op *dirOp) apply() {
	if op.from != nil {
		delete(op.from.durable, op.fromName)
	}
	if op.unlink {
		delete(op.dir.durable, op.name)
		return
	}
	op.dir.durable[op.name] = op.node
}

// touches reports whether op changes an entry of dir.
func (op *dirOp) touches(dir *inode) bool { return op.dir == dir || op.from == dir }

// entry reports whether op changes the entry name of dir.
func (op *dirOp) entry(dir *inode, name string) bool {
	return dir != nil && (op.dir == dir && op.name == name || op.from == dir && op.fromName == name)
}

// needs reports whether op, which came later, can only be durable if prev is: they change
// one entry. (A file moved twice shares the entry in the middle. A name inside a
// directory that was lost is merely out of reach.)
func (op *dirOp) needs(prev *dirOp) bool {
	return prev.entry(op.dir, op.name) || prev.entry(op.from, op.fromName)
}

// changeDir records op, which the caller has applied to the live names.
func (m *Mem) changeDir(op dirOp) {
	if len(m.ops) >= maxDirOps {
		m.ops[0].apply()
		m.ops = slices.Delete(m.ops, 0, 1)
	}
	m.ops = append(m.ops, op)
}

// syncDir makes every pending change of dir durable, with all that those need.
func (m *Mem) syncDir(dir *inode) {
	due := make([]bool, len(m.ops))
	for j := len(m.ops) - 1; j >= 0; j-- {
		due[j] = due[j] || m.ops[j].touches(dir)
		for i := 0; due[j] && i < j; i++ {
			due[i] = due[i] || m.ops[j].needs(&m.ops[i])
		}
	}
	rest := m.ops[:0]
	for i := range m.ops {
		if due[i] {
			m.ops[i].apply()
		} else {
			rest = append(rest, m.ops[i])
		}
	}
	clear(m.ops[len(rest):])
	m.ops = rest
}

// lookup finds name in one layer.
func (m *Mem) lookup(name string, from layer) (*inode, error) {
	ino := m.root
	if name == "." {
		return ino, nil
	}
	for rest, more := name, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if !ino.isDir {
			return nil, errNotDir
		}
		entries := ino.live
		if from == onPlatter {
			entries = ino.durable
		}
		next := entries[part]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		ino = next
	}
	return ino, nil
}

// file finds a live file.
func (m *Mem) file(name string) (*inode, error) {
	ino, err := m.lookup(name, inCache)
	if err == nil && ino.isDir {
		return nil, errIsDir
	}
	return ino, err
}

// dirOf finds the live directory of name and its last element.
func (m *Mem) dirOf(name string) (*inode, string, error) {
	if name == "." {
		return nil, "", errIsDir
	}
	dir, base := splitName(name)
	ino, err := m.lookup(dir, inCache)
	if err == nil && !ino.isDir {
		err = errNotDir
	}
	return ino, base, err
}

// link adds a new inode under name, live.
func (m *Mem) link(dir *inode, base string, ino *inode) {
	dir.live[base] = ino
	m.changeDir(dirOp{dir: dir, name: base, node: ino})
}

// openOrMake returns the file name, made if absent.
func (m *Mem) openOrMake(name string) (*inode, error) {
	dir, base, err := m.dirOf(name)
	if err != nil {
		return nil, err
	}
	ino := dir.live[base]
	if ino == nil {
		ino = &inode{path: name, linked: true, mtime: m.clock()}
		m.link(dir, base, ino)
	} else if ino.isDir {
		return nil, errIsDir
	}
	return ino, nil
}

func (m *Mem) mkdirAll(name string) error {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		dir, base, err := m.dirOf(name[:i])
		if err != nil {
			return err
		}
		if ino := dir.live[base]; ino == nil {
			m.link(dir, base, newDir(name[:i]))
		} else if !ino.isDir {
			return errNotDir
		}
	}
	return nil
}

func (m *Mem) remove(name string) error {
	dir, base, err := m.dirOf(name)
	if err != nil {
		return err
	}
	ino := dir.live[base]
	if ino == nil {
		return fs.ErrNotExist
	}
	if ino.isDir && len(ino.live) > 0 {
		return errNotEmpty
	}
	delete(dir.live, base)
	m.changeDir(dirOp{dir: dir, name: base, node: ino, unlink: true})
	m.unlinked(ino)
	return nil
}

func (m *Mem) rename(oldName, newName string) error {
	from, fromBase, err := m.dirOf(oldName)
	if err != nil {
		return err
	}
	ino := from.live[fromBase]
	if ino == nil {
		return fs.ErrNotExist
	}
	to, toBase, err := m.dirOf(newName)
	if err != nil {
		return err
	}
	old := to.live[toBase]
	switch {
	case old == ino:
		return nil
	case ino.isDir && strings.HasPrefix(newName, oldName+"/"):
		return errLoop
	case old != nil && old.isDir && !ino.isDir:
		return errIsDir
	case old != nil && !old.isDir && ino.isDir:
		return errNotDir
	case old != nil && old.isDir && len(old.live) > 0:
		return errNotEmpty
	}
	delete(from.live, fromBase)
	to.live[toBase] = ino
	ino.path = newName
	m.changeDir(dirOp{dir: to, name: toBase, node: ino, from: from, fromName: fromBase})
	if old != nil {
		m.unlinked(old)
	}
	return nil
}

// unlinked gives back the space of a file that lost its name, unless it is still open.
func (m *Mem) unlinked(ino *inode) {
	ino.linked = false
	m.release(ino)
}

// release frees the blocks of a file with neither name nor handle.
func (m *Mem) release(ino *inode) {
	if !ino.linked && ino.openIn(m.life) == 0 {
		m.used -= ino.blocks
		ino.blocks = 0
	}
}

// sortedNames returns the keys of a directory in ascending order.
func sortedNames(entries map[string]*inode) []string {
	return slices.Sorted(maps.Keys(entries))
}
