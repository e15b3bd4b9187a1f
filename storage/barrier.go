package storage

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"lockstep/internal/ha"
	"lockstep/internal/varint"
)

// MaxBarrierEpochs limits the epoch list inside one barrier record: the newest
// entries are kept. Older ones are in older barriers.
const MaxBarrierEpochs = 256

// barrierVersion is the first byte of a barrier's body. A reader refuses a
// higher one by name instead of guessing.
const barrierVersion = 1

const barrierClean = 0x1

// Barrier is the body of the first record of an epoch (rule P7). It makes every
// epoch non-empty, so that the epoch list can be derived from the log alone.
type Barrier struct {
	Epoch  ha.MasterEpoch
	Master ha.BrokerID
	Boot   ha.Boot
	Store  ha.StoreID
	Start  ha.LogOffset // where the barrier itself begins: the epoch's start
	Clean  bool         // false after an election that may have lost acknowledged data
	Recent ha.Epochs    // the newest earlier epochs with their unclean marks, ascending, at most MaxBarrierEpochs
}

// EncodeBarrier returns the record body. A longer Recent list keeps its newest
// MaxBarrierEpochs entries.
func EncodeBarrier(b Barrier) []byte {
	recent := b.Recent
	if len(recent) > MaxBarrierEpochs {
		recent = recent[len(recent)-MaxBarrierEpochs:]
	}
	flags := byte(0)
	if b.Clean {
		flags |= barrierClean
	}
	out := make([]byte, 0, 64+12*len(recent))
	out = append(out, barrierVersion, flags)
	out = binary.AppendUvarint(out, uint64(b.Epoch))
	out = binary.AppendVarint(out, int64(b.Master))
	out = binary.AppendUvarint(out, uint64(b.Boot))
	out = binary.AppendUvarint(out, uint64(len(b.Store)))
	out = append(out, b.Store...)
	out = binary.AppendUvarint(out, uint64(b.Start))
	out = binary.AppendUvarint(out, uint64(len(recent)))
	for _, e := range recent {
		mark := uint64(0)
		if e.Unclean {
			mark = 1
		}
		out = binary.AppendUvarint(out, uint64(e.Epoch)<<1|mark)
		out = binary.AppendUvarint(out, uint64(e.Start))
	}
	return out
}

// DecodeBarrier reads a barrier body. Anything that EncodeBarrier cannot have
// written is an error.
func DecodeBarrier(body []byte) (Barrier, error) {
	d := varint.Reader{Rest: body}
	version, flags := d.Byte(), d.Byte()
	if d.Err == nil && version != barrierVersion {
		return Barrier{}, fmt.Errorf("barrier record: version %d, this release reads %d", version, barrierVersion)
	}
	b := Barrier{
		Epoch:  ha.MasterEpoch(d.Uint(1<<31 - 1)),
		Master: ha.BrokerID(d.Int()),
		Boot:   ha.Boot(d.Uint(1<<32 - 1)),
		Store:  ha.StoreID(d.Bytes(maxStoreID)),
		Start:  ha.LogOffset(d.Uint(1<<63 - 1)),
		Clean:  flags&barrierClean != 0,
	}
	n := d.Uint(MaxBarrierEpochs)
	for i := uint64(0); i < n && d.Err == nil; i++ {
		word := d.Uint(1<<32 - 1)
		b.Recent = append(b.Recent, ha.EpochStart{
			Epoch: ha.MasterEpoch(word >> 1), Unclean: word&1 != 0,
			Start: ha.LogOffset(d.Uint(1<<63 - 1)),
		})
	}
	switch {
	case d.Err != nil:
		return Barrier{}, fmt.Errorf("barrier record: %w", d.Err)
	case len(d.Rest) != 0:
		return Barrier{}, fmt.Errorf("barrier record: %d bytes behind its end", len(d.Rest))
	case b.Epoch <= 0 || flags&^barrierClean != 0:
		return Barrier{}, errors.New("barrier record: no epoch, or unknown flags")
	case !ValidStoreID(b.Store):
		return Barrier{}, fmt.Errorf("barrier record: store id %.40q is not 32 hex digits", b.Store)
	case !b.Epochs().Valid():
		return Barrier{}, errors.New("barrier record: epoch list is not ascending")
	}
	return b, nil
}

// Epochs is the epoch list up to and including the barrier's own epoch.
func (b Barrier) Epochs() ha.Epochs {
	return b.Recent.Append(ha.EpochStart{Epoch: b.Epoch, Start: b.Start, Unclean: !b.Clean})
}

// maxStoreID is the length of a store id in hex digits.
const maxStoreID = 32

// NewStoreID makes a store id of sixteen random bytes.
func NewStoreID(random [16]byte) ha.StoreID { return ha.StoreID(hex.EncodeToString(random[:])) }

// ValidStoreID reports whether id is 32 lower-case hex digits.
func ValidStoreID(id ha.StoreID) bool {
	if len(id) != maxStoreID {
		return false
	}
	for i := 0; i < len(id); i++ {
		if (id[i] < '0' || id[i] > '9') && (id[i] < 'a' || id[i] > 'f') {
			return false
		}
	}
	return true
}
