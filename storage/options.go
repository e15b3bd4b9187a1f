package storage

import (
	"fmt"
	"io"
	"strings"
)

// Limits and defaults of options.
const (
	DefaultSegment     = 1 << 30 // bytes (mappedFileSizeCommitLog)
	MinSegment         = 4 << 10
	MaxSegment         = 1 << 40
	DefaultQueueUnits  = 300_000 // units a file (mappedFileSizeConsumeQueue / 20)
	MaxQueueUnits      = 100_000_000
	DefaultQueueSync   = 256 << 20
	DefaultOpenFiles   = 1024
	maxNameBytes       = 127
	minQueueUnits      = 8
	minOpenFiles       = 4
	maxRecordLimit     = 1 << 30
	recoveryChunkBytes = 1 << 20
)

// Options describe a store. Cluster, Group and Entropy are required; a zero
// number means its default.
type Options struct {
	// Cluster and Group (brokerClusterName, brokerName) own the store; a store of
	// others is refused. 1 to 127 bytes, without '#' and line breaks.
	Cluster, Group string
	// Segment is the commit log file size in bytes, 4 KiB to 1 TiB; default 1 GiB
	// (mappedFileSizeCommitLog). It cannot change once the store exists.
	Segment int64
	// QueueUnits is the number of 20-byte units in a consume queue file, at least 8;
	// default 300,000 (mappedFileSizeConsumeQueue / 20).
	QueueUnits int
	// MaxRecord is the largest stored record in bytes, at most the segment less 8;
	// default 4 MiB + 64 KiB (maxMessageSize).
	MaxRecord int
	// RequirePropCRC says that every record written from this store's first start on
	// carries the native property CRC (enabledAppendPropCRC), so that one without it
	// is damage. Leave it off in groups with Java members.
	RequirePropCRC bool
	// QueueSync is how many log bytes may be dispatched before a checkpoint syncs the
	// consume queues, which bounds what recovery scans; default 256 MiB.
	QueueSync int64
	// OpenFiles limits the consume queue files held open, at least 4; default 1024.
	OpenFiles int
	// ProcessID is the content of the native abort file.
	ProcessID int
	// Entropy gives the random bytes of store ids and boot nonces; it must not fail.
	Entropy io.Reader
}

// withDefaults fills in zero numbers.
func (o Options) withDefaults() Options {
	setDefault(&o.Segment, DefaultSegment)
	setDefault(&o.QueueUnits, DefaultQueueUnits)
	setDefault(&o.MaxRecord, int(min(DefaultMaxRecord, o.Segment-BlankHeader)))
	setDefault(&o.QueueSync, DefaultQueueSync)
	setDefault(&o.OpenFiles, DefaultOpenFiles)
	return o
}

func setDefault[T int | int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Validate names the first option out of range and says what is allowed.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case !validOwner(o.Cluster):
		return o.bad("brokerClusterName", o.Cluster, "1 to 127 bytes without '#' or line breaks")
	case !validOwner(o.Group):
		return o.bad("brokerName", o.Group, "1 to 127 bytes without '#' or line breaks")
	case o.Segment < MinSegment || o.Segment > MaxSegment:
		return o.bad("mappedFileSizeCommitLog", o.Segment, "4096 to 1099511627776 bytes")
	case o.QueueUnits < minQueueUnits || o.QueueUnits > MaxQueueUnits:
		return o.bad("mappedFileSizeConsumeQueue", o.QueueUnits*queueUnit, "160 to 2000000000 bytes, a multiple of 20")
	case o.MaxRecord < MinRecord || o.MaxRecord > maxRecordLimit || int64(o.MaxRecord) > o.Segment-BlankHeader:
		return o.bad("largest record", o.MaxRecord, "91 bytes to 1 GiB, and to the segment size less 8")
	case o.QueueSync < 0:
		return o.bad("queue sync distance", o.QueueSync, "a positive number of bytes")
	case o.OpenFiles < minOpenFiles:
		return o.bad("open consume queue files", o.OpenFiles, "at least 4")
	case o.Entropy == nil:
		return fmt.Errorf("%w: options: a source of random bytes is missing", ErrInvalid)
	}
	return nil
}

func (o Options) bad(key string, v any, want string) error {
	return fmt.Errorf("%w: %s = %v: want %s", ErrInvalid, key, v, want)
}

func validOwner(s string) bool {
	return s != "" && len(s) <= maxNameBytes && !strings.ContainsAny(s, "#\r\n")
}
