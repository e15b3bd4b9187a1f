package maelstrom

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// folder is where one node keeps what survives its process.
type folder struct {
	path string
	life uint64 // of this process: higher than that of any before in the folder
	lock *os.File
}

// RunFolder is the default folder of all nodes of one run:
//
//	TMP/lockstep-maelstrom/PARENT-STARTED-PLACE
//
// named after the process that started this one, the instant it started, and the
// working folder. A node that is killed and started again by the same harness finds
// its data; another run is another harness process and begins empty, although the
// nodes have the same names. Folders of harnesses that are gone are removed.
func RunFolder() (string, error) {
	base := filepath.Join(os.TempDir(), "lockstep-maelstrom")
	parent := os.Getppid()
	started, ok := startOf(parent)
	if !ok {
		return "", fmt.Errorf("process %d, which started this one, is not in /proc: name a folder with --data", parent)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working folder: %w", err)
	}
	sum := fnv.New32a()
	sum.Write([]byte(cwd))
	removeOld(base)
	return filepath.Join(base, fmt.Sprintf("%d-%s-%08x", parent, started, sum.Sum32())), nil
}

// startOf is the start of a process in the kernel's ticks since boot, which tells
// two processes with one number apart.
func startOf(pid int) (ticks string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// The name, in parentheses, may hold blanks; the start is the 20th field after it.
	_, rest, found := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return "", false
	}
	return fields[19], true
}

// removeOld deletes the folders of harnesses that do not run any more. Nothing
// depends on it: what cannot be removed stays.
func removeOld(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		part := strings.Split(e.Name(), "-")
		pid, err := strconv.Atoi(part[0])
		if err != nil || len(part) != 3 {
			continue
		}
		if started, ok := startOf(pid); !ok || started != part[1] {
			_ = os.RemoveAll(filepath.Join(base, e.Name()))
		}
	}
}

// openFolder makes or opens a node's folder inside the run's and begins a life.
func openFolder(run, name string) (*folder, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
		return nil, fmt.Errorf("node name %q cannot be a folder's", name)
	}
	f := &folder{path: filepath.Join(run, name)}
	if err := os.MkdirAll(f.path, 0o750); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := f.hold(); err != nil {
		return nil, err
	}
	if err := f.begin(); err != nil {
		f.lock.Close() // the reason to end is err
		return nil, err
	}
	return f, nil
}

// hold keeps a second process out of the folder.
func (f *folder) hold() error {
	lock, err := os.OpenFile(f.file("lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	for limit := time.Now().Add(lockWait); ; time.Sleep(lockWait / 40) {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			f.lock = lock
			return nil
		}
		if time.Now().After(limit) {
			lock.Close() // nothing was written
			return fmt.Errorf("data folder %s: another process uses it: %w", f.path, err)
		}
	}
}

// lockWait is how long a node that was killed may take to be gone.
const lockWait = 2 * time.Second

// begin raises the number of lives, durably, before anybody is told it. The clock
// helps a folder that was lost, nothing more.
func (f *folder) begin() error {
	old, err := os.ReadFile(f.file("life"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder: %w", err)
	}
	last, err := strconv.ParseUint(strings.TrimSpace(string(old)), 10, 42)
	if len(old) > 0 && err != nil {
		return fmt.Errorf("data folder: %s holds %.50q, not a number: remove the folder %s to start empty", f.file("life"), old, f.path)
	}
	f.life = max(last+1, uint64(time.Now().UnixMilli())&(1<<42-1))
	return writeDurably(f.file("life"), strconv.FormatUint(f.life, 10)+"\n")
}

// writeDurably replaces a small file.
func writeDurably(path, text string) error {
	tmp, err := os.Create(path + ".new")
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// has reports whether a file or folder of that name is there.
func (f *folder) has(name string) bool {
	_, err := os.Stat(f.file(name))
	return err == nil
}

// close lets another process have the folder.
func (f *folder) close() error { return f.lock.Close() }
