package storage

import (
	"bytes"
	"fmt"
	"strconv"

	"lockstep/internal/ha"
)

// MaxEpochs limits an epoch list, in the file and in memory. One entry is one
// change of master.
const MaxEpochs = 1 << 16

// maxEpochFile bounds the bytes of an epoch file that is read.
const maxEpochFile = 16 + MaxEpochs*32

// EncodeEpochFile returns the native epoch file: the number of entries, a
// CRC-32 of the entry lines, then one `epoch-startOffset` a line. An empty list
// is "0\n0\n", so that "cut everything" survives a restart, which Java's
// writer leaves out.
func EncodeEpochFile(list ha.Epochs) []byte {
	lines := make([]byte, 0, 24*len(list))
	for _, e := range list {
		lines = strconv.AppendInt(lines, int64(e.Epoch), 10)
		lines = append(lines, '-')
		lines = strconv.AppendInt(lines, int64(e.Start), 10)
		lines = append(lines, '\n')
	}
	out := strconv.AppendInt(nil, int64(len(list)), 10)
	out = append(out, '\n')
	out = strconv.AppendUint(out, uint64(CRC(lines)), 10)
	out = append(out, '\n')
	return append(out, lines...)
}

// DecodeEpochFile reads a native epoch file. A stored CRC of 0 is not checked,
// as in Java. Errors name the line.
func DecodeEpochFile(b []byte) (ha.Epochs, error) {
	if len(b) > maxEpochFile {
		return nil, fmt.Errorf("epoch file of %d bytes exceeds the limit of %d", len(b), maxEpochFile)
	}
	count, rest, err := epochNumber(b, 1, '\n', MaxEpochs)
	if err != nil {
		return nil, err
	}
	sum, lines, err := epochNumber(rest, 2, '\n', 1<<31-1)
	if err != nil {
		return nil, err
	}
	if sum != 0 && uint64(CRC(lines)) != sum {
		return nil, fmt.Errorf("epoch file: checksum %d in line 2, the entries have %d", sum, CRC(lines))
	}
	list := make(ha.Epochs, 0, count)
	rest = lines
	for i := range int(count) {
		var epoch, start uint64
		if epoch, rest, err = epochNumber(rest, i+3, '-', 1<<31-1); err != nil {
			return nil, err
		}
		if start, rest, err = epochNumber(rest, i+3, '\n', 1<<63-1); err != nil {
			return nil, err
		}
		list = append(list, ha.EpochStart{Epoch: ha.MasterEpoch(epoch), Start: ha.LogOffset(start)})
	}
	if len(bytes.TrimSpace(rest)) != 0 {
		return nil, fmt.Errorf("epoch file: more than the %d entries that line 1 announces", count)
	}
	if !list.Valid() {
		return nil, fmt.Errorf("epoch file: entries are not ascending")
	}
	return list, nil
}

// epochNumber reads a decimal number up to the stop byte; the last line may end
// with the file.
func epochNumber(b []byte, line int, stop byte, limit uint64) (v uint64, rest []byte, err error) {
	i := bytes.IndexByte(b, stop)
	if i < 0 && stop == '\n' {
		i = len(b)
	}
	if i <= 0 {
		return 0, nil, fmt.Errorf("epoch file: line %d is missing or malformed", line)
	}
	v, err = strconv.ParseUint(string(bytes.TrimSuffix(b[:i], []byte{'\r'})), 10, 64)
	if err != nil || v > limit {
		return 0, nil, fmt.Errorf("epoch file: line %d: %.24q is not a number of at most %d", line, b[:i], limit)
	}
	return v, b[min(i+1, len(b)):], nil
}

// MergeEpochs joins the list derived from barrier records with the cached one:
// barriers win; the file fills in the epochs that masters without barriers led
// (rule P9). Entries that start at or above end have no byte left (a cut, and a crash
// before the file followed) and are dropped, and so is a cached entry
// that does not fit between its neighbours.
func MergeEpochs(derived, cached ha.Epochs, end ha.LogOffset) ha.Epochs {
	var out ha.Epochs
	i := 0
	for _, d := range derived {
		for ; i < len(cached) && cached[i].Epoch < d.Epoch; i++ {
			if fits(out, cached[i]) && cached[i].Start <= d.Start {
				out = append(out, cached[i])
			}
		}
		if i < len(cached) && cached[i].Epoch == d.Epoch {
			i++
		}
		if d.Start < end && fits(out, d) {
			out = append(out, d)
		}
	}
	for ; i < len(cached); i++ {
		if cached[i].Start < end && fits(out, cached[i]) {
			out = append(out, cached[i])
		}
	}
	return out
}

func fits(list ha.Epochs, e ha.EpochStart) bool {
	last := list.Last()
	return e.Epoch > last.Epoch && e.Start >= last.Start
}
