package controller

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// Bodies of frames between controllers:
//
//	1  kind   4  CRC-32C of kind and payload   n  payload
//
// A session carries messages one way, from the controller that dialled. It opens
// with a hello, answered by a welcome or a refusal, and a hello may come again
// whenever what it says has changed. Raft messages follow a welcome.
const (
	frameHello   = 1
	frameWelcome = 2
	frameRefuse  = 3
	frameRaft    = 4

	peerFrameHead = 5
	// helloVersion is raised when the meaning of frames changes.
	helloVersion = 1
)

// hello says who speaks: identical on both sides of the handshake.
type hello struct {
	group   string // controllerDLegerGroup
	list    uint64 // hash of the configured controller ids
	node    string // who I am
	to      string // whom I mean
	store   ha.StoreID
	cluster string // "" while I belong to none
	raftID  uint64 // my member number, 0 while I have none
	// yours is, in a welcome of a member, the receiver's member number by the committed
	// list of voters, 0 when it is not (or no longer) in it.
	yours uint64
	// rejoin: my operator confirmed that I lost my store and shall be taken in anew.
	rejoin bool
}

// refusal is the payload of a refuse frame.
type refusal struct {
	cluster string // of the refusing controller
	lost    bool   // the receiver is known with another store: it lost its vote (P17)
	reason  string
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func peerFrame(kind byte, payload []byte) wire.Frame {
	b := make([]byte, peerFrameHead, peerFrameHead+len(payload))
	b[0] = kind
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[1:], peerChecksum(b))
	return wire.Frame{Link: wire.Raft, Body: b}
}

func peerChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:1], castagnoli), castagnoli, b[peerFrameHead:])
}

func openPeerFrame(f *wire.Frame) (kind byte, payload []byte, err error) {
	b := f.Body
	if len(b) < peerFrameHead {
		return 0, nil, fmt.Errorf("controller frame of %d bytes", len(b))
	}
	if binary.BigEndian.Uint32(b[1:]) != peerChecksum(b) {
		return 0, nil, fmt.Errorf("controller frame with a wrong checksum")
	}
	return b[0], b[peerFrameHead:], nil
}

func (h *hello) encode() []byte {
	w := writer{b: []byte{helloVersion}}
	w.text(h.group)
	w.fixed(h.list)
	w.text(h.node)
	w.text(h.to)
	w.text(string(h.store))
	w.text(h.cluster)
	w.uint(h.raftID)
	w.uint(h.yours)
	w.bool(h.rejoin)
	return w.b
}

func decodeHello(b []byte) (hello, error) {
	r := newReader(b)
	if v := r.Byte(); v != helloVersion && r.Err == nil {
		return hello{}, fmt.Errorf("hello of version %d, this build speaks %d", v, helloVersion)
	}
	h := hello{
		group: r.text(), list: r.fixed(), node: r.text(), to: r.text(), store: ha.StoreID(r.text()),
		cluster: r.text(), raftID: r.uint(), yours: r.uint(), rejoin: r.bool(),
	}
	return h, r.end("hello")
}

func (x *refusal) encode() []byte {
	var w writer
	w.text(x.cluster)
	w.bool(x.lost)
	w.text(x.reason[:min(len(x.reason), maxText)])
	return w.b
}

func decodeRefusal(b []byte) (refusal, error) {
	r := newReader(b)
	x := refusal{r.text(), r.bool(), r.text()}
	return x, r.end("refusal")
}
