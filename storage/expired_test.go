package storage

import (
	"errors"
	"strings"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// betweenFS calls a function in the middle of an operation: after the next read or
// sync of a file whose name begins with prefix.
type betweenFS struct {
	vfs.FS
	prefix string
	then   func()
}

func (f *betweenFS) Open(name string) (vfs.File, error) { return f.wrap(name)(f.FS.Open(name)) }

func (f *betweenFS) Create(name string) (vfs.File, error) { return f.wrap(name)(f.FS.Create(name)) }

func (f *betweenFS) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(file vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		return &betweenFile{file, f, name}, nil
	}
}

type betweenFile struct {
	vfs.File
	fs   *betweenFS
	name string
}

func (f *betweenFile) pass() {
	if then := f.fs.then; then != nil && strings.HasPrefix(f.name, f.fs.prefix) {
		f.fs.then = nil
		then()
	}
}

func (f *betweenFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.pass()
	return n, err
}

func (f *betweenFile) Sync() error {
	err := f.File.Sync()
	f.pass()
	return err
}

// TestExpiredMeanwhile: what retention removes in the middle of a read or of a
// checkpoint is out of range, and no failure of the disk.
func TestExpiredMeanwhile(t *testing.T) {
	between := &betweenFS{FS: vfs.NewMem(vfs.MemOptions{})}
	var a *appender
	expireAll := func() { // OpExpire, from where it gives the small files to others
		lo, err := a.s.log.expire(int64(a.end))
		if err == nil {
			err = a.s.queues.expire(logOff(lo))
		}
		if err != nil || lo == 0 {
			t.Fatalf("expired to %d: %v", lo, err)
		}
	}
	for name, c := range map[string]struct {
		prefix string
		do     func() error
		want   error // nil: the operation succeeds
	}{
		"read of a record longer than the limit": {dirCommitLog, func() error {
			return a.do(Op{Kind: OpRead, Off: 0, Max: BlankHeader}).Err
		}, ErrRange},
		"pull, units": {dirConsumeQueue, func() error {
			return a.do(Op{Kind: OpPull, Pull: PullArgs{Topic: "A", MaxMsgs: 4096, MaxBytes: MaxPullBytes, Limit: a.end}}).Err
		}, ErrRange},
		"pull, records": {dirCommitLog, func() error {
			return a.do(Op{Kind: OpPull, Pull: PullArgs{Topic: "A", MaxMsgs: 4096, MaxBytes: MaxPullBytes, Limit: a.end}}).Err
		}, ErrRange},
		"seek": {dirConsumeQueue, func() error {
			return a.do(Op{Kind: OpSeek, Pull: PullArgs{Topic: "A"}, WallMillis: 1}).Err
		}, nil},
		"checkpoint, ends of queues": {dirConsumeQueue, func() error {
			half := ha.LogOffset(int64(a.filed) / 2)
			return a.do(Op{Kind: OpCheckpoint, Off: half, Confirm: half, Dispatched: half}).Err
		}, nil},
		"checkpoint, sync of queues": {queueDir("A", 0) + "/", func() error {
			return a.do(Op{Kind: OpCheckpoint, Off: a.synced, Confirm: a.synced, Dispatched: a.filed}).Err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			between.FS, between.then = vfs.NewMem(vfs.MemOptions{}), nil
			a = openStore(t, between, testOptions(1))
			for i := range 300 {
				a.append(message("A", 0, body(i)))
			}
			a.sync()
			a.file()
			between.prefix, between.then = c.prefix, expireAll
			if err := c.do(); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if between.then != nil {
				t.Fatal("nothing was expired meanwhile")
			}
			if err := a.s.writable(); err != nil {
				t.Errorf("the store is finished: %v", err)
			}
			a.fill(10)
			a.file()
			a.sync()
			a.checkpoint()
		})
	}
}
