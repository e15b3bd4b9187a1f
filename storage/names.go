package storage

import (
	"fmt"
	"strconv"
	"strings"
)

// Files and directories of a store, relative to its root. The first group is
// native; the second is Lockstep's own and absent on a store that a Java broker
// wrote.
const (
	dirCommitLog     = "commitlog"
	dirConsumeQueue  = "consumequeue"
	dirConfig        = "config"
	nameLock         = "lock"
	nameAbort        = "abort"
	nameCheckpoint   = "checkpoint"
	nameEpochBackup  = NameEpochFile + ".bak"
	dirLockstep      = "lockstep"
	nameStore        = dirLockstep + "/store"
	nameBoot         = dirLockstep + "/boot"
	nameFloor        = dirLockstep + "/floor"
	nameCut          = dirLockstep + "/cut"
	nameClean        = dirLockstep + "/clean"
	nameSuspect      = dirLockstep + "/suspect"
	segmentNameWidth = 20
)

// Names that OpSave accepts, beside files directly under "config/". An empty Blob
// removes the file where that is said; elsewhere it leaves an empty file.
const (
	// NameEpochFile is the native epoch file; its blob comes from EncodeEpochFile.
	// The old content is kept as ".bak".
	NameEpochFile = "epochFileCheckpoint"
	// NameIdentity is the native broker identity; its blob comes from EncodeIdentity.
	NameIdentity = "brokerIdentity"
	// NameIdentityTemp is the identity while the controller has not confirmed it; an
	// empty Blob removes it.
	NameIdentityTemp = "brokerIdentity-temp"
	// NameHighestEpoch is the highest master epoch ever seen; its blob comes from
	// EncodeHighestEpoch.
	NameHighestEpoch = dirLockstep + "/epoch"
	// NameReceivedAcks is the flag that this life may acknowledge bytes it has only
	// received. It must be durable before the first such acknowledgement (rule P1);
	// a clean stop, or an empty Blob, removes it.
	NameReceivedAcks = dirLockstep + "/received-acks"
	// NameBrokenClaim is the mark that this store may miss what it acknowledged. Open
	// sets it; the broker saves it with an empty Blob (removing it) once this incarnation
	// has passed the join test and the set that names it is committed (rule P2), or
	// once it was elected all the same (rule P16).
	NameBrokenClaim = dirLockstep + "/claim-broken"
)

// segmentName is the native name of a file that starts at the given offset.
func segmentName(dir string, base int64) string {
	s := strconv.FormatInt(base, 10)
	return dir + "/" + strings.Repeat("0", segmentNameWidth-len(s)) + s
}

// parseSegmentName reads a 20-digit file name.
func parseSegmentName(name string) (base int64, ok bool) {
	if len(name) != segmentNameWidth {
		return 0, false
	}
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return 0, false
		}
	}
	base, err := strconv.ParseInt(name, 10, 64)
	return base, err == nil
}

// queueDir is the directory of a consume queue.
func queueDir(topic string, queue int32) string {
	return dirConsumeQueue + "/" + topic + "/" + strconv.Itoa(int(queue))
}

// SafeTopic reports whether a topic can be a directory name on any supported file
// system without leaving its parent: RocketMQ's characters and limits (wire
// contract 4.8), wherever the name came from.
func SafeTopic(topic string) bool {
	if topic == "" || len(topic) > MaxTopic {
		return false
	}
	for i := range len(topic) {
		c := topic[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '%', c == '|', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// checkSaveName refuses names that OpSave must not write.
func checkSaveName(name string) error {
	switch name {
	case NameEpochFile, NameIdentity, NameIdentityTemp, NameHighestEpoch, NameReceivedAcks, NameBrokenClaim:
		return nil
	}
	if file, ok := strings.CutPrefix(name, dirConfig+"/"); ok && file != "" && len(file) <= MaxTopic {
		plain := strings.IndexFunc(file, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
		}) < 0
		if plain && strings.Trim(file, ".") != "" {
			return nil
		}
	}
	return fmt.Errorf("%w: save %.80q: not a file the store keeps", ErrInvalid, name)
}

// removable reports whether a nil blob removes the file.
func removable(name string) bool {
	return name == NameBrokenClaim || name == NameIdentityTemp || name == NameReceivedAcks
}
