package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// maxIdentity bounds an identity file in bytes.
const maxIdentity = 1 << 10

// EncodeIdentity returns the native broker identity file,
// `cluster#brokerName#id`.
func EncodeIdentity(cluster, group string, id ha.BrokerID) []byte {
	return []byte(cluster + "#" + group + "#" + strconv.FormatInt(int64(id), 10))
}

// DecodeIdentity reads a broker identity file. Further '#' parts, as the
// temporary file has them, are returned as rest.
func DecodeIdentity(b []byte) (cluster, group string, id ha.BrokerID, rest string, err error) {
	if len(b) > maxIdentity {
		return "", "", 0, "", fmt.Errorf("broker identity of %d bytes exceeds the limit of %d", len(b), maxIdentity)
	}
	parts := strings.SplitN(strings.TrimRight(string(b), "\r\n"), "#", 4)
	if len(parts) < 3 || !validOwner(parts[0]) || !validOwner(parts[1]) {
		return "", "", 0, "", fmt.Errorf("broker identity %.80q: want cluster#brokerName#id", b)
	}
	n, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || n < 0 {
		return "", "", 0, "", fmt.Errorf("broker identity %.80q: id %.24q is not a number", b, parts[2])
	}
	if len(parts) == 4 {
		rest = parts[3]
	}
	return parts[0], parts[1], ha.BrokerID(n), rest, nil
}

// EncodeHighestEpoch returns the blob of NameHighestEpoch.
func EncodeHighestEpoch(e ha.MasterEpoch) []byte {
	return encodeSide("epoch", fieldInt("epoch", int64(e)))
}

// storeFile is the content of the store side file: who owns the store and the
// shape it was created with.
type storeFile struct {
	id      ha.StoreID
	segment int64
	crcFrom ha.LogOffset // records from here on carry a property CRC; -1 means none must
}

func encodeStoreFile(s storeFile, o Options) []byte {
	return encodeSide("store", field("store", string(s.id)), field("cluster", o.Cluster), field("group", o.Group),
		fieldInt("segment", s.segment), field("crcFrom", strconv.FormatInt(int64(s.crcFrom), 10)))
}

func decodeStoreFile(b []byte) (s storeFile, cluster, group string, err error) {
	f, err := decodeSide("store", b)
	if err != nil {
		return s, "", "", err
	}
	s.id = ha.StoreID(f.get("store"))
	if !ValidStoreID(s.id) {
		return s, "", "", errors.New("store id is not 32 hex digits")
	}
	if s.segment, err = f.number("segment"); err != nil {
		return s, "", "", err
	}
	from, err := strconv.ParseInt(f.get("crcFrom"), 10, 64)
	if err != nil || from < -1 {
		return s, "", "", errors.New("field crcFrom is not an offset")
	}
	s.crcFrom = ha.LogOffset(from)
	return s, f.get("cluster"), f.get("group"), nil
}

// loadStoreFile reads the store side file. found is false on a new store and on
// one that only a Java broker has used.
func loadStoreFile(fsys vfs.FS, o Options) (s storeFile, found bool, err error) {
	b, err := vfs.ReadFile(fsys, nameStore)
	if errors.Is(err, fs.ErrNotExist) {
		return storeFile{}, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read %s: %w", nameStore, err)
	}
	s, cluster, group, err := decodeStoreFile(b)
	if err != nil {
		return s, false, damaged(nameStore, err.Error(),
			"move the store directory away and start empty, so that the broker rebuilds from its master")
	}
	if err := checkOwner(nameStore, cluster, group, o); err != nil {
		return s, false, err
	}
	if s.segment != o.Segment {
		return s, false, fmt.Errorf("%w: %s: segments of %d bytes, mappedFileSizeCommitLog says %d: set it to %d",
			ErrForeignStore, dirCommitLog, s.segment, o.Segment, s.segment)
	}
	return s, true, nil
}

func checkOwner(file, cluster, group string, o Options) error {
	if cluster == o.Cluster && group == o.Group {
		return nil
	}
	return fmt.Errorf("%w: %s names %s/%s, this broker is %s/%s: correct brokerClusterName and brokerName, or storePathRootDir",
		ErrForeignStore, file, cluster, group, o.Cluster, o.Group)
}

// loadBrokerID reads the native identity file; NoBroker when there is none.
func loadBrokerID(fsys vfs.FS, o Options) (ha.BrokerID, error) {
	b, err := vfs.ReadFile(fsys, NameIdentity)
	if errors.Is(err, fs.ErrNotExist) {
		return ha.NoBroker, nil
	}
	if err != nil {
		return ha.NoBroker, fmt.Errorf("read %s: %w", NameIdentity, err)
	}
	cluster, group, id, _, err := DecodeIdentity(b)
	if err != nil {
		return ha.NoBroker, damaged(NameIdentity, err.Error(), "restore the file, or remove it to ask the controller for a new id")
	}
	return id, checkOwner(NameIdentity, cluster, group, o)
}

// nextBoot reads the boot counter, raises it and makes the new value durable
// with a fresh nonce (rule P1).
func nextBoot(fsys vfs.FS, entropy io.Reader) (boot ha.Boot, nonce uint64, err error) {
	s, found, err := readSide(fsys, nameBoot, "boot")
	last := int64(0)
	if err == nil && found {
		last, err = s.number("boot")
	}
	if err != nil {
		return 0, 0, damaged(nameBoot, err.Error(),
			"move the store directory away and start empty: without its boot counter a store cannot be told from a copy")
	}
	var raw [8]byte
	if _, err := io.ReadFull(entropy, raw[:]); err != nil {
		return 0, 0, fmt.Errorf("draw the boot nonce: %w", err)
	}
	boot, nonce = ha.Boot(last+1), binary.BigEndian.Uint64(raw[:])
	return boot, nonce, saveBoot(fsys, boot, nonce)
}

func saveBoot(fsys vfs.FS, boot ha.Boot, nonce uint64) error {
	blob := encodeSide("boot", fieldInt("boot", int64(boot)), field("nonce", strconv.FormatUint(nonce, 16)))
	if err := vfs.WriteAtomic(fsys, nameBoot, blob); err != nil {
		return fmt.Errorf("write %s: %w", nameBoot, mapDisk(err))
	}
	return nil
}

// lastBoot returns the counter of the previous start, 0 when there was none or
// the file does not say (nextBoot judges that).
func lastBoot(fsys vfs.FS) ha.Boot {
	s, found, err := readSide(fsys, nameBoot, "boot")
	if !found || err != nil {
		return 0
	}
	n, err := s.number("boot")
	if err != nil {
		return 0
	}
	return ha.Boot(n)
}

// createStore draws a new store id and makes it durable. It is a store's first
// durable act (rule P1).
func createStore(fsys vfs.FS, o Options, crcFrom ha.LogOffset) (storeFile, error) {
	var raw [16]byte
	if _, err := io.ReadFull(o.Entropy, raw[:]); err != nil {
		return storeFile{}, fmt.Errorf("draw the store id: %w", err)
	}
	s := storeFile{id: NewStoreID(raw), segment: o.Segment, crcFrom: crcFrom}
	if err := vfs.WriteAtomic(fsys, nameStore, encodeStoreFile(s, o)); err != nil {
		return storeFile{}, fmt.Errorf("write %s: %w", nameStore, mapDisk(err))
	}
	return s, nil
}
