package raftstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"lockstep/internal/ha"
)

// Layout of the file store. All integers are big-endian.
//
//	identity               the Identity record
//	snapshot               the newest Snapshot record
//	log-<first sequence>   segments; the name has 20 digits
//
// Every record, in any file:
//
//	4  CRC-32C of all that follows, seeded with the store id
//	4  length of the payload
//	8  sequence (0 in identity and snapshot)
//	1  kind
//	n  payload
//
// A segment is a header record followed by one record for each write. Sequences
// rise by one from record to record across segments, headers included, so a
// missing file and a stale one are both told from a torn write.
//
// Header payload:  24 hard state, 8 index and 8 term of the entry before the
// segment's first, 1 reset flag (the log restarts behind an installed snapshot).
// Write payload:   1 has-hard flag, 24 hard state, then entries: 8 index, 8 term,
// 1 type, 4 length, n data. One CRC covers all entries of a write.
const (
	recordHead = 17
	hardBytes  = 24
	entryHead  = 21

	kindHeader   = 1
	kindWrite    = 2
	kindIdentity = 3
	kindSnapshot = 4
	// maxPayload bounds what a damaged length can make the reader allocate.
	maxPayload = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the first record of a segment.
type header struct {
	hard  HardState
	prev  uint64
	term  uint64
	reset bool
}

// sealRecord returns payload as a record. salt is the store id: a record of
// another store, or bytes a client sent to look like one, never verify.
func sealRecord(salt ha.StoreID, kind byte, seq uint64, payload []byte) []byte {
	b := make([]byte, recordHead, recordHead+len(payload))
	binary.BigEndian.PutUint32(b[4:], uint32(len(payload)))
	binary.BigEndian.PutUint64(b[8:], seq)
	b[16] = kind
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b, checksum(salt, b[4:]))
	return b
}

func checksum(salt ha.StoreID, b []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(salt), castagnoli), castagnoli, b)
}

// openRecord returns the record at the start of b, or ok false when there is no
// whole and unharmed one.
func openRecord(salt ha.StoreID, b []byte) (kind byte, seq uint64, payload []byte, ok bool) {
	if len(b) < recordHead {
		return 0, 0, nil, false
	}
	n := binary.BigEndian.Uint32(b[4:])
	if n > maxPayload || int(n) > len(b)-recordHead {
		return 0, 0, nil, false
	}
	end := recordHead + int(n)
	if binary.BigEndian.Uint32(b) != checksum(salt, b[4:end]) {
		return 0, 0, nil, false
	}
	return b[16], binary.BigEndian.Uint64(b[8:]), b[recordHead:end:end], true
}

func putHard(b []byte, h HardState) []byte {
	b = binary.BigEndian.AppendUint64(b, h.Term)
	b = binary.BigEndian.AppendUint64(b, h.Vote)
	return binary.BigEndian.AppendUint64(b, h.Commit)
}

func getHard(b []byte) HardState {
	return HardState{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
}

func (h header) encode() []byte {
	b := putHard(nil, h.hard)
	b = binary.BigEndian.AppendUint64(b, h.prev)
	b = binary.BigEndian.AppendUint64(b, h.term)
	return append(b, flag(h.reset))
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func decodeHeader(b []byte) (header, error) {
	if len(b) != hardBytes+17 || b[hardBytes+16] > 1 {
		return header{}, fmt.Errorf("segment header of %d bytes", len(b))
	}
	return header{
		hard: getHard(b), prev: binary.BigEndian.Uint64(b[hardBytes:]),
		term: binary.BigEndian.Uint64(b[hardBytes+8:]), reset: b[hardBytes+16] == 1,
	}, nil
}

// encodeWrite lays out one write's hard state (nil: unchanged) and entries.
func encodeWrite(hard *HardState, es []Entry) []byte {
	size := 1 + hardBytes
	for _, e := range es {
		size += entryHead + len(e.Data)
	}
	b := make([]byte, 0, size)
	h := HardState{}
	if hard != nil {
		h = *hard
	}
	b = putHard(append(b, flag(hard != nil)), h)
	for _, e := range es {
		b = binary.BigEndian.AppendUint64(b, e.Index)
		b = binary.BigEndian.AppendUint64(b, e.Term)
		b = append(b, e.Type)
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Data)))
		b = append(b, e.Data...)
	}
	return b
}

// decodeWrite is the inverse of encodeWrite; the entries' data is part of b.
func decodeWrite(b []byte) (hard *HardState, es []Entry, err error) {
	if len(b) < 1+hardBytes || b[0] > 1 {
		return nil, nil, fmt.Errorf("write of %d bytes", len(b))
	}
	if b[0] == 1 {
		h := getHard(b[1:])
		hard = &h
	}
	b = b[1+hardBytes:]
	for len(b) > 0 {
		if len(b) < entryHead {
			return nil, nil, fmt.Errorf("%d bytes left for an entry", len(b))
		}
		n := int(binary.BigEndian.Uint32(b[17:]))
		if n > len(b)-entryHead {
			return nil, nil, fmt.Errorf("entry of %d bytes, %d left", n, len(b)-entryHead)
		}
		es = append(es, Entry{
			Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]),
			Type: b[16], Data: b[entryHead : entryHead+n : entryHead+n],
		})
		b = b[entryHead+n:]
	}
	return hard, es, nil
}

// encodeIdentity lays out an identity: 4 length and text of store, node and
// cluster, then 8 raft id.
func encodeIdentity(id Identity) []byte {
	var b []byte
	for _, s := range []string{string(id.Store), id.Node, id.Cluster} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return binary.BigEndian.AppendUint64(b, id.RaftID)
}

func decodeIdentity(b []byte) (Identity, error) {
	var text [3]string
	for i := range text {
		if len(b) < 4 || int(binary.BigEndian.Uint32(b)) > len(b)-4 {
			return Identity{}, fmt.Errorf("identity is cut short")
		}
		n := int(binary.BigEndian.Uint32(b))
		text[i], b = string(b[4:4+n]), b[4+n:]
	}
	if len(b) != 8 {
		return Identity{}, fmt.Errorf("identity has %d bytes too many", len(b)-8)
	}
	return Identity{ha.StoreID(text[0]), text[1], text[2], binary.BigEndian.Uint64(b)}, nil
}

// encodeSnapshot lays out a snapshot: 8 index, 8 term, the four member lists (4
// count, 8 each), 1 auto-leave, the data.
func encodeSnapshot(s Snapshot) []byte {
	b := binary.BigEndian.AppendUint64(nil, s.Index)
	b = binary.BigEndian.AppendUint64(b, s.Term)
	for _, ids := range [][]uint64{s.Conf.Voters, s.Conf.Learners, s.Conf.VotersOutgoing, s.Conf.LearnersNext} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(ids)))
		for _, id := range ids {
			b = binary.BigEndian.AppendUint64(b, id)
		}
	}
	return append(append(b, flag(s.Conf.AutoLeave)), s.Data...)
}

func decodeSnapshot(b []byte) (Snapshot, error) {
	if len(b) < 16 {
		return Snapshot{}, fmt.Errorf("snapshot of %d bytes", len(b))
	}
	s := Snapshot{Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:])}
	b = b[16:]
	for _, ids := range []*[]uint64{&s.Conf.Voters, &s.Conf.Learners, &s.Conf.VotersOutgoing, &s.Conf.LearnersNext} {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4)/8 {
			return Snapshot{}, fmt.Errorf("snapshot's membership is cut short")
		}
		n := int(binary.BigEndian.Uint32(b))
		b = b[4:]
		for range n {
			*ids = append(*ids, binary.BigEndian.Uint64(b))
			b = b[8:]
		}
	}
	if len(b) < 1 || b[0] > 1 {
		return Snapshot{}, fmt.Errorf("snapshot has no data")
	}
	s.Conf.AutoLeave, s.Data = b[0] == 1, b[1:]
	return s, nil
}
