package ha

import "slices"

// EpochStart says where an epoch begins in the log. Unclean marks an epoch whose
// master was elected outside the electable members: only such an epoch may make
// a replica cut bytes it had acknowledged (P10). The mark comes from the barrier
// record and is absent where only a foreign epoch file is left, so it takes no
// part in comparing entries.
type EpochStart struct {
	Epoch   MasterEpoch
	Start   LogOffset
	Unclean bool
}

// Same reports whether both entries name one epoch with one start.
func (x EpochStart) Same(y EpochStart) bool { return x.Epoch == y.Epoch && x.Start == y.Start }

// Epochs is an epoch list: epochs strictly ascending, starts never descending
// (an epoch without data shares its successor's start when a Java master led).
type Epochs []EpochStart

// Last returns the newest entry, or the zero entry.
func (e Epochs) Last() EpochStart {
	if len(e) == 0 {
		return EpochStart{}
	}
	return e[len(e)-1]
}

// Valid reports whether the order rules of the type hold.
func (e Epochs) Valid() bool {
	for i, x := range e {
		if x.Epoch <= 0 || x.Start < 0 {
			return false
		}
		if i > 0 && (x.Epoch <= e[i-1].Epoch || x.Start < e[i-1].Start) {
			return false
		}
	}
	return true
}

// Append returns the list with a newer epoch at its end.
func (e Epochs) Append(x EpochStart) Epochs { return append(slices.Clone(e), x) }

// CutAt returns the list of a log cut at off: entries that start at or above
// the cut are gone, because none of their bytes are left (P9).
func (e Epochs) CutAt(off LogOffset) Epochs {
	out := slices.Clone(e)
	for len(out) > 0 && out[len(out)-1].Start >= off {
		out = out[:len(out)-1]
	}
	return out
}

// At returns the epoch that the byte at off belongs to, and the end of that
// epoch (the next epoch's start, or end for the newest). ok is false below the
// first entry.
func (e Epochs) At(off, end LogOffset) (cur EpochStart, stop LogOffset, ok bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if off >= e[i].Start {
			stop = end
			if i+1 < len(e) {
				stop = e[i+1].Start
			}
			return e[i], stop, true
		}
	}
	return EpochStart{}, 0, false
}

// ConsistentPoint is the offset up to which a slave's log (epochs, end) is known
// to equal its master's: the newest epoch both hold with the same start decides,
// point = min of its ends on both sides (HA contract 4.2). ok is false when no
// epoch is common, so nothing can be said.
func ConsistentPoint(slave Epochs, slaveEnd LogOffset, master Epochs, masterEnd LogOffset) (LogOffset, bool) {
	for i := len(slave) - 1; i >= 0; i-- {
		for j := len(master) - 1; j >= 0; j-- {
			if !slave[i].Same(master[j]) {
				continue
			}
			return min(epochEnd(slave, i, slaveEnd), epochEnd(master, j, masterEnd)), true
		}
	}
	return 0, false
}

func epochEnd(e Epochs, i int, end LogOffset) LogOffset {
	if i+1 < len(e) {
		return e[i+1].Start
	}
	return end
}
