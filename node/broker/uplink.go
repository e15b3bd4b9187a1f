package broker

import (
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// uplink is the stream this broker keeps to one controller or name server. A stream
// that a device on the way has forgotten looks open for minutes, while nobody hears
// this broker behind it; so one that answers nothing for too long is replaced. The new
// stream is dialled beside it, and the old one kept until the new one is up: where only
// the answers are lost, what goes out on the old one still arrives.
type uplink struct {
	addr    string
	session node.SessionID // 0: none
	up      bool
	next    node.Time // earliest next dial, or what is due next when up
	asked   node.Time // first request since the newest answer; 0: none

	spare     node.SessionID // being dialled in the place of a silent stream; 0: none
	nextSpare node.Time      // earliest next such dial
}

func (u *uplink) has(s node.SessionID) bool { return u.session == s || u.spare == s }

// ask notes that a request goes out: unless an earlier one waits already, the stream
// is expected to answer from now on.
func (u *uplink) ask(now node.Time) {
	if u.asked == 0 {
		u.asked = now
	}
}

// spareDue is when a second stream is to be dialled if nothing is heard until then.
func (u *uplink) spareDue(silence time.Duration) node.Time {
	if !u.up || u.asked == 0 || u.spare != 0 {
		return node.Never
	}
	return max(u.nextSpare, u.asked.Add(silence))
}

// dialUplink dials where there is no stream, or a second one where it is silent.
func (b *Broker) dialUplink(u *uplink, kind sessionKind, silence time.Duration) {
	again := b.now.Mono.Add(b.o.RedialPause)
	switch {
	case u.session == 0 && b.now.Mono >= u.next:
		u.session, u.next = b.dial(wire.Remoting, u.addr, kind), again
	case b.now.Mono >= u.spareDue(silence):
		u.spare, u.nextSpare = b.dial(wire.Remoting, u.addr, kind), again
	}
}

// uplinkUp is the state with a new stream, which ends a silent one.
func (b *Broker) uplinkUp(u *uplink, s node.SessionID) uplink {
	if s == u.spare {
		b.fx.Closes = append(b.fx.Closes, u.session)
		delete(b.sessions, u.session)
	}
	return uplink{addr: u.addr, session: s, up: true, next: b.now.Mono}
}

// uplinkDown is the state after the end of the stream; a spare one that is being
// dialled takes its place.
func (b *Broker) uplinkDown(u *uplink) uplink {
	return uplink{addr: u.addr, session: u.spare, next: b.now.Mono.Add(b.o.RedialPause)}
}
