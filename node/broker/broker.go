// Package broker is the broker machine: the replicated log and the services that
// RocketMQ clients see. It is a sans-I/O state machine (package node): facts only
// record, Settle derives every effect in the order data flows.
//
// The core is split by noun: appender, tail and queues hold the log; registrar,
// authority, lease and role decide who may write; promotion, demotion, master and
// slave move the log between replicas; syncset, confirm and waiters decide what is
// acknowledged and seen. The rule numbers in comments (P1–P20, M1–M10) are those
// of the protocol rules listed in ARCHITECTURE.md.
package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Broker is one broker machine. The zero value is not usable; see New.
type Broker struct {
	services

	o  Options
	fx *node.Effects // effects of the call under way: out during facts, the host's during Settle
	// out collects effects of facts until the next Settle.
	out node.Effects
}

// New returns the broker of a store that was opened as r.
func New(o Options, r storage.Recovered) (*Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{o: o}
	b.fx = &b.out
	b.services = newServices(o.ServiceOptions)
	return b, nil
}

var _ node.Machine = (*Broker)(nil)

func (b *Broker) SessionUp(now node.Now, s node.SessionID, p node.Peer)     {}
func (b *Broker) Receive(now node.Now, s node.SessionID, f *wire.Frame)     {}
func (b *Broker) SessionDown(now node.Now, s node.SessionID, reason string) {}
func (b *Broker) DiskDone(now node.Now, r storage.Result)                   {}
func (b *Broker) Stop(now node.Now)                                         {}
func (b *Broker) Settle(now node.Now, fx *node.Effects)                     {}
func (b *Broker) Deadline() node.Time                                       { return node.Never }
func (b *Broker) Listeners() []node.Listener                                { return nil }
func (b *Broker) CheckInvariants()                                          {}
func (b *Broker) Conditions() []node.Condition                              { return nil }
func (b *Broker) Gauges(report func(name string, value float64))            {}

// admit says whether a user record may be appended now; nil means yes.
func (b *Broker) admit(now node.Now) *refusal { return nil }

// append places an admitted record in the log.
func (b *Broker) append(now node.Now, p placement) placed { return placed{} }

// await queues an answer.
func (b *Broker) await(w waiter) {}

// unproven reports whether confirm is below the start of the own epoch (P7).
func (b *Broker) unproven() bool { return false }

// isMaster reports whether this broker serves as master (promotion finished).
func (b *Broker) isMaster() bool { return false }

// endOffset is the exclusive end of the log; confirmOffset what consumers may see.
func (b *Broker) endOffset() ha.LogOffset     { return 0 }
func (b *Broker) confirmOffset() ha.LogOffset { return 0 }
func (b *Broker) minOffset() ha.LogOffset     { return 0 }

// currentEpoch is the epoch of the role in force, 0 when there is none.
func (b *Broker) currentEpoch() ha.MasterEpoch { return 0 }

// masterAddress is the remoting address of the master in force, "" when unknown.
func (b *Broker) masterAddress() string { return "" }

// proven says that end is covered by confirm: all waits of internal writers.
func (b *Broker) confirmed(end ha.LogOffset) bool { return false }

// diskOwner says which part of the broker an operation belongs to.
type diskOwner uint8

const (
	ownerLog diskOwner = iota
	ownerServices
)

// disk issues an operation in this Settle and returns its id.
func (b *Broker) disk(op storage.Op, owner diskOwner) uint64 { return 0 }

func (b *Broker) emit(e event.Event) { b.fx.Emit(e) }
