package netsim

import (
	"lockstep/internal/decide"
	"lockstep/internal/invariant"
	"lockstep/node/wire"
)

// siteBinary is whether a node writes binary headers.
var siteBinary = decide.NewSite("net.binary-header", "", 0, 1)

// encode turns a frame into its bytes, with a bit flipped where that is drawn.
// It returns why the frame cannot be encoded, "" when it can.
func (n *Net) encode(pk *packet, f *wire.Frame, from *endpoint, k decide.Key, corrupt int64) string {
	b, err := wire.AppendFrame(nil, f, from.enc)
	if err != nil {
		return err.Error()
	}
	pk.bytes, pk.size = b, int64(len(b))
	if corrupt > 0 {
		if v := n.decider.Decide(siteCorrupt, k, decide.Dist{Tail: 1 << 30, TailPermille: corrupt}); v > 0 {
			bit := (v - 1) % int64(len(b)*8)
			b[bit/8] ^= 1 << (bit % 8)
			n.stats.Corrupted++
		}
	}
	return ""
}

// reader is the receiving end of a pipe when bytes travel: what is left of
// frames whose end has not come.
type reader struct {
	dec  wire.Decoder
	rest []byte
}

// decode adds the bytes of a packet to the stream and calls each for every
// frame that is complete; it returns why the stream cannot go on, "" when it
// can. A damaged length can make it wait for bytes that never come.
func (n *Net) decode(s *stream, side int, pk *packet, each func(f *wire.Frame)) string {
	r := &s.pipe[side].reader
	r.dec.Link = s.link
	buf := pk.bytes
	if len(r.rest) > 0 {
		buf = append(append(make([]byte, 0, len(r.rest)+len(buf)), r.rest...), buf...)
	}
	for len(buf) > 0 {
		f, used, err := r.dec.Decode(buf)
		if err != nil {
			return err.Error()
		}
		if used == 0 {
			break
		}
		out := n.arena.newFrame()
		*out = f
		each(out)
		buf = buf[used:]
	}
	r.rest = buf
	return ""
}

// mustBePartial asserts that the first keep bytes of a packet make no frame:
// the decoder waits for the rest, or refuses what it has.
func mustBePartial(s *stream, pk *packet, keep int64) {
	if keep <= 0 || keep >= int64(len(pk.bytes)) {
		return
	}
	_, used, err := wire.Decode(s.link, pk.bytes[:keep])
	invariant.That(used == 0 || err != nil, "%d of %d bytes of a frame decoded as a frame", keep, len(pk.bytes))
}
