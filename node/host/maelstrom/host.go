// Package maelstrom runs nodes of the product behind Maelstrom's JSON lines: the
// third host. Each process holds a controller and a broker of one group, the same
// machines with the same rules as everywhere; their disks are real folders, their
// streams are made by package session out of messages, and a gateway turns
// Maelstrom's requests into the requests of RocketMQ's clients and the answers back.
//
// One loop goroutine owns everything: it takes all facts that wait, samples the
// clock once, tells machines, links and gateway, settles them until nothing is left
// to hand on, and writes. So a batch costs one packet a peer and one write of the
// log, however many requests are in it. Standard input is read beside it, and each
// lane of each disk has a goroutine.
package maelstrom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lockstep/node"
	"lockstep/node/host"
	"lockstep/node/host/maelstrom/rpc"
	"lockstep/storage"
)

// Options say what to run; Node is required.
type Options struct {
	// Node is the end of the protocol, not yet running.
	Node *rpc.Node
	// Data is the folder of all nodes of a run; each uses one inside, named after
	// itself. "" means RunFolder's.
	Data string
	// Profile is the set of timers; the zero one means DefaultProfile.
	Profile Profile
	// Log takes events and the host's own lines; nil discards them.
	Log *slog.Logger
	// Clock is the node's time; nil is the machine's, which goes on while it sleeps.
	Clock host.Clock
}

// Host is one node.
type Host struct {
	o     Options
	clock host.Clock
	self  string
	nodes []string // in the order that all nodes agree on
	index int      // of self
	dir   *folder
	unfit error // why there can be no group of so many nodes, nil when there can
	box   mailbox
	done  chan struct{} // closed when the loop has ended
	ids   uint64        // unique ids given out; the reading goroutine's

	// Loop state.
	seats   []*seat // controller, broker; empty before they are wanted
	net     *links
	gate    *gateway
	gossip  *gossip
	stopped bool
}

// Limits of what waits for the loop.
const (
	// maxRequests bounds requests not yet taken; one more is answered "not now".
	maxRequests = 1 << 15
	// maxPackets bounds packets of peers not yet taken; one more is lost, which links
	// survive.
	maxPackets = 1 << 14
	// maxSleep bounds a sleep on a deadline: Go's timers stand still while the machine
	// is suspended, the node's clock does not.
	maxSleep = time.Second
	// maxRounds bounds the rounds of one batch: each hands on what the one before
	// produced, and there is little that answers itself.
	maxRounds = 64
)

// Run serves until standard input ends.
func Run(o Options) error {
	if o.Profile == (Profile{}) {
		o.Profile = DefaultProfile(1)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = host.BootClock()
	}
	h := &Host{o: o, clock: o.Clock, done: make(chan struct{})}
	h.box.wake = make(chan struct{}, 1)
	h.register()
	err := o.Node.Run()
	if h.dir != nil {
		h.box.put(fact{kind: factStop})
		<-h.done
		err = errors.Join(err, h.gossip.close(), h.dir.close())
	}
	return err
}

// initialise begins the node's life; a node that has data joins its group at once.
func (h *Host) initialise(self string, nodes []string) error {
	if !slices.Contains(nodes, self) || len(nodes) > maxNodes {
		return rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("init: node_id %q is not one of the at most %d node_ids", self, maxNodes))
	}
	h.self, h.nodes = self, slices.Clone(nodes)
	slices.Sort(h.nodes)
	h.nodes = slices.Compact(h.nodes)
	h.index = slices.Index(h.nodes, self)
	run := h.o.Data
	var err error
	if run == "" {
		run, err = RunFolder()
	}
	h.unfit = h.o.Profile.Validate(len(h.nodes))
	var dir *folder
	if err == nil {
		dir, err = openFolder(run, self)
	}
	if err == nil {
		h.gossip, err = openGossip(h, dir)
	}
	if err != nil {
		if dir != nil {
			err = errors.Join(err, dir.close()) // another init may find it in order
		}
		h.o.Log.Error("the node cannot begin", "node", self, "error", err)
		return rpc.NewRPCError(rpc.Crash, err.Error())
	}
	h.dir = dir
	h.net = newLinks(h)
	h.gate = newGateway(h)
	h.o.Log.Info("begun", "node", self, "of", len(h.nodes), "data", dir.path, "life", dir.life)
	if dir.has(brokerFolder) || dir.has(controllerFolder) {
		h.box.put(fact{kind: factWake})
	}
	go h.loop()
	return nil
}

// maxNodes bounds the nodes of a run. Groups of brokers and controllers have their
// own, lower limit: more nodes serve the workloads that need no group.
const maxNodes = 1024

// factKind says what happened.
type factKind uint8

const (
	factPacket  factKind = iota // a peer's packet: from, packet
	factRequest                 // a client's request: task
	factGossip                  // a message of the broadcast workload: msg, say
	factDisk                    // result of seat's lanes
	factWake                    // the machines are wanted
	factStop
)

// fact is one thing that waits for the loop.
type fact struct {
	kind   factKind
	msg    rpc.Message
	task   task
	at     node.Time // factRequest: when it was read
	say    gossipMessage
	packet []byte
	lanes  *host.Lanes
	seat   *seat
	result *storage.Result
}

// mailbox hands facts to the loop.
type mailbox struct {
	mu                sync.Mutex
	in, spare         []fact
	requests, packets int // of in
	wake              chan struct{}
}

// put reports whether there was room.
func (b *mailbox) put(f fact) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f.kind {
	case factPacket, factGossip:
		if b.packets >= maxPackets {
			return false
		}
		b.packets++
	case factRequest:
		if b.requests >= maxRequests {
			return false
		}
		b.requests++
	}
	b.in = append(b.in, f)
	select {
	case b.wake <- struct{}{}:
	default: // a wake-up is already waiting
	}
	return true
}

// take returns everything that waits; valid until the next take.
func (b *mailbox) take() []fact {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.spare)
	got := b.in
	b.in, b.spare = b.spare[:0], got
	b.requests, b.packets = 0, 0
	return got
}

func (h *Host) loop() {
	defer close(h.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		facts := h.box.take()
		now := h.clock()
		for i := range facts {
			h.tell(now, &facts[i])
		}
		if h.stopped {
			for _, s := range h.seats {
				s.shut(now, "the node ends")
			}
			return
		}
		h.settle(now)
		if wait := h.deadline().Sub(h.clock().Mono); wait > 0 {
			timer.Reset(min(wait, maxSleep))
			select {
			case <-h.box.wake:
			case <-timer.C:
			}
		}
	}
}

func (h *Host) tell(now node.Now, f *fact) {
	switch f.kind {
	case factPacket:
		h.wake(now)
		h.net.receive(now, f.msg.Src, f.packet)
	case factRequest:
		h.wake(now)
		h.gate.begin(f.at, f.msg, f.task)
	case factGossip:
		h.gossip.receive(now, &f.msg, &f.say)
	case factDisk:
		if f.seat.lanes == f.lanes && f.seat.machine != nil {
			f.seat.machine.DiskDone(now, *f.result)
		}
	case factWake:
		h.wake(now)
	case factStop:
		h.stopped = true
	}
}

// wake opens the machines when they are wanted for the first time. A run of echo
// or broadcast never needs them.
func (h *Host) wake(now node.Now) {
	if h.seats != nil || h.unfit != nil {
		return
	}
	h.seats = []*seat{newSeat(h, "controller", h.openController), newSeat(h, "broker", h.openBroker)}
	for _, s := range h.seats {
		s.start(now)
	}
}

// settle hands on what each part has for the others until none has anything.
func (h *Host) settle(now node.Now) {
	h.gate.batch()
	for round := 0; ; round++ {
		for _, s := range h.seats {
			s.settle(now)
		}
		h.gate.settle(now)
		if !h.net.deliver(now) || round > maxRounds {
			break
		}
	}
	h.gossip.settle(now)
}

func (h *Host) deadline() node.Time {
	t := min(h.net.deadline(), h.gate.deadline(), h.gossip.deadline())
	for _, s := range h.seats {
		t = min(t, s.deadline())
	}
	return t
}

// seatOf is who listens on a port, nil when it does not run.
func (h *Host) seatOf(port int) *seat {
	for i, s := range h.seats {
		mine := port == portController || port == portRaft
		if s.machine != nil && mine == (i == 0) && port >= portBroker && port <= portRaft {
			return s
		}
	}
	return nil
}

// send writes a message to a node; what cannot be written is said once.
func (h *Host) send(to string, body any) {
	if err := h.o.Node.Send(to, body); err != nil {
		h.o.Log.Warn("a message was not sent", "error", err)
	}
}

func (h *Host) reply(m *rpc.Message, body any) {
	if err := h.o.Node.Reply(*m, body); err != nil {
		h.o.Log.Log(context.Background(), slog.LevelDebug, "an answer was not sent", "error", err)
	}
}
