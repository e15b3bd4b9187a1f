package broker

import (
	"testing"
	"time"
)

// TestOriginIsNamed: a log that begins in the middle of its master's names the epoch of
// its first byte before it takes one. Without the name a crash would leave bytes of an
// unknown epoch, which no master takes for its own.
func TestOriginIsNamed(t *testing.T) {
	w := started(t, 3, func(_ int, o *Options) {
		o.MappedFileSizeCommitLog, o.FileReservedTime, o.CleanResourceInterval = 4<<10, time.Second, 200*time.Millisecond
	})
	m := w.writable()
	slave := w.slaves()[0]
	slave.crash(false)
	stop, _ := w.load(m, "old", 1)
	w.until("an expired beginning", 60*time.Second, func() bool { return m.b.log.min > 0 })
	stop()
	slave.store = newMemStore(slave.n, slave.o.MappedFileSizeCommitLog)
	slave.start()
	w.until("the first byte", 20*time.Second, func() bool { return slave.b != nil && slave.b.log.min > 0 && slave.b.log.end > slave.b.log.min })
	if e := slave.b.epochs; len(e) == 0 || !slave.b.saved(saveEpochs) {
		t.Errorf("the log takes bytes at %d with epochs %v, saved %v", slave.b.log.min, e, slave.b.saved(saveEpochs))
	}
}
