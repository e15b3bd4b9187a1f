package live

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"lockstep/storage/vfs"
)

// metronome measures how much the computer itself holds the nodes up: how late a
// goroutine runs and gets its turn, and how long the device takes for a small sync.
// A clause about times cannot be judged in a run that was held up for long.
type metronome struct {
	stop  chan struct{}
	worst atomic.Int64 // nanoseconds, real time
}

// How often it looks, real time.
const (
	beat  = 10 * time.Millisecond
	probe = 200 * time.Millisecond
)

// start begins to measure.
func (m *metronome) start(w *World) error {
	m.stop = make(chan struct{})
	fsys := vfs.OS(filepath.Join(w.o.Dir, ".probe"))
	if err := fsys.MkdirAll("."); err != nil {
		return fmt.Errorf("live: probe of the disk: %w", err)
	}
	f, err := fsys.Create("probe")
	if err != nil {
		return fmt.Errorf("live: probe of the disk: %w", err)
	}
	w.work.Go(func() {
		m.every(beat, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.closed
		})
	})
	w.work.Go(func() {
		defer closeQuietly(f)
		m.every(probe, func() bool {
			_, err := f.WriteAt([]byte{1}, 0)
			return errors.Join(err, f.Sync()) == nil // the nodes see such an error themselves
		})
	})
	return nil
}

// every does something again and again and keeps how late it was done at the worst,
// until that reports that the world is over.
func (m *metronome) every(d time.Duration, do func() bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		due := time.Now().Add(d)
		timer.Reset(d)
		select {
		case <-timer.C:
		case <-m.stop:
			return
		}
		if !do() {
			return
		}
		if late := int64(time.Since(due)); late > m.worst.Load() {
			m.worst.Store(late)
		}
	}
}
