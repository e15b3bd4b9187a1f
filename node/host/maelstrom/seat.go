package maelstrom

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/broker"
	"lockstep/node/controller"
	"lockstep/node/host"
	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/raftstore"
	"lockstep/storage/vfs"
)

// The folders of the machines inside the node's.
const (
	brokerFolder     = "broker"
	controllerFolder = "controller"
)

// opened is a machine and its store.
type opened struct {
	machine node.Machine
	disk    host.Doer
	close   func() error
}

// seat is the place of one machine: it performs the machine's effects, and opens it
// again when it has ended for a reason that a new start heals.
type seat struct {
	h       *Host
	name    string
	open    func() (opened, error)
	machine node.Machine // nil while it does not run
	prepare node.Preparer
	lanes   *host.Lanes
	close   func() error
	ends    map[node.SessionID]*end
	lastID  node.SessionID // of accepted streams
	againAt node.Time      // when it is opened again; Never when it stays down
	fx      node.Effects
}

// reopenPause is between the end of a machine and its next start.
const reopenPause = time.Second

func newSeat(h *Host, name string, open func() (opened, error)) *seat {
	return &seat{h: h, name: name, open: open, ends: map[node.SessionID]*end{}, againAt: node.Never}
}

// start opens the machine. A store that cannot be opened leaves the seat empty: the
// node stays and says "not now" to what it cannot do.
func (s *seat) start(now node.Now) {
	s.againAt = node.Never
	o, err := s.open()
	if err != nil {
		s.h.o.Log.Error("a machine does not start; the node goes on without it", "node", s.h.self, "machine", s.name, "error", err)
		return
	}
	s.machine, s.close = o.machine, o.close
	s.prepare, _ = o.machine.(node.Preparer)
	var l *host.Lanes
	l = host.StartLanes(host.LaneOptions{Disk: o.disk, Readers: host.DefaultReaders,
		Done: func(r *storage.Result) { s.h.box.put(fact{kind: factDisk, seat: s, lanes: l, result: r}) }})
	s.lanes = l
}

// shut ends the machine and everything that belongs to it.
func (s *seat) shut(now node.Now, reason string) {
	if s.machine == nil {
		return
	}
	s.machine, s.prepare = nil, nil
	s.h.net.closeAll(now, s, reason)
	s.lanes.Stop()
	if err := s.close(); err != nil {
		s.h.o.Log.Error("a store did not close", "node", s.h.self, "machine", s.name, "error", err)
	}
	s.lanes = nil
}

func (s *seat) deadline() node.Time {
	if s.machine == nil {
		return s.againAt
	}
	return s.machine.Deadline()
}

// settle derives the machine's effects and performs them in their order.
func (s *seat) settle(now node.Now) {
	if s.machine == nil {
		if now.Mono >= s.againAt {
			s.start(now)
		}
		return
	}
	fx := &s.fx
	fx.Reset()
	s.machine.Settle(now, fx)
	for i := range fx.Events {
		s.log(&fx.Events[i])
	}
	s.sendAll(now)
	for _, op := range fx.Disk {
		s.lanes.Put(op)
	}
	for _, d := range fx.Dials {
		s.ends[d.Session] = s.h.net.dial(now, s, d)
	}
	for _, id := range fx.Closes {
		s.h.net.hangUp(now, s.ends[id], "closed")
	}
	if fx.Exit != nil {
		s.exit(now, *fx.Exit)
	}
}

// sendAll hands on the frames of a batch. What may be said only before some instant is
// held against the clock as it is now, as every host does: the process may have stood
// still since the batch began.
func (s *seat) sendAll(now node.Now) {
	late, at := 0, node.Time(0)
	for i := range s.fx.Sends {
		to := &s.fx.Sends[i]
		if to.Before != 0 && at == 0 {
			at = s.h.clock().Mono
		}
		if to.Before != 0 && at >= to.Before {
			late++
			s.h.net.hangUp(now, s.ends[to.To], "the answer came too late")
			continue
		}
		s.h.net.send(now, s.ends[to.To], &to.Frame)
	}
	if late > 0 {
		s.h.o.Log.Warn("answers withheld: what entitled to them ended during the batch", "node", s.h.self, "machine", s.name, "answers", late)
	}
}

// exit follows the end of a machine. What a supervisor must not start again stays
// down: the store cannot be used, or must not be believed.
func (s *seat) exit(now node.Now, e node.Exit) {
	s.h.o.Log.Error("a machine has ended", "node", s.h.self, "machine", s.name, "code", e.Code, "reason", e.Reason)
	s.shut(now, "the machine has ended")
	if e.Code != node.ExitRefused && e.Code != node.ExitSuspect {
		s.againAt = now.Mono.Add(reopenPause)
	}
}

// log prints an event: what needs somebody's hand as an error, all others for those
// who look closely.
func (s *seat) log(e *event.Event) {
	level := slog.LevelDebug
	switch e.Kind {
	case event.DiskFailed, event.StoreSuspect, event.RebuildNeeded:
		level = slog.LevelError
	}
	if ctx := context.Background(); s.h.o.Log.Enabled(ctx, level) {
		s.h.o.Log.Log(ctx, level, e.Kind.String(), "node", s.h.self, "broker", e.Broker, "epoch", e.Epoch, "set", fmt.Sprint(e.Set),
			"count", e.Count, "code", e.Code, "text", e.Text)
	}
}

// up, receive and down pass the facts of a stream on. Facts of the batch in which the
// machine ended find it gone.
func (s *seat) up(now node.Now, e *end) {
	if s.machine == nil {
		return
	}
	s.ends[e.id] = e
	s.machine.SessionUp(now, e.id, e.peer)
}

func (s *seat) receive(now node.Now, e *end, f *wire.Frame) {
	if s.machine == nil {
		return
	}
	if s.prepare != nil {
		s.prepare.Prepare(now, f, e.peer)
	}
	s.machine.Receive(now, e.id, f)
}

func (s *seat) down(now node.Now, e *end, reason string) {
	delete(s.ends, e.id)
	if s.machine != nil {
		s.machine.SessionDown(now, e.id, reason)
	}
}

// openBroker recovers the broker's store.
func (h *Host) openBroker() (opened, error) {
	o := h.o.Profile.brokerOptions(h.index, len(h.nodes))
	path := h.dir.file(brokerFolder)
	if err := os.MkdirAll(path, 0o750); err != nil {
		return opened{}, fmt.Errorf("data folder: %w", err)
	}
	store, rec, err := storage.Open(vfs.OS(path), storage.Options{Cluster: group, Group: group, Segment: o.MappedFileSizeCommitLog,
		QueueUnits: queueUnits, MaxRecord: int(o.MappedFileSizeCommitLog - storage.BlankHeader), RequirePropCRC: o.EnabledAppendPropCRC,
		ProcessID: os.Getpid(), Entropy: rand.Reader})
	if err != nil {
		return opened{}, fmt.Errorf("open %s: %w", path, err)
	}
	m, err := broker.New(o, rec)
	if err != nil {
		store.Close() // the reason to end is err
		return opened{}, err
	}
	return opened{m, store, store.Close}, nil
}

// queueUnits is the size of a consume queue file, entries. Maelstrom uses a key a
// few times and never again, so files are small.
const queueUnits = 256

// openController recovers the controller's raft log.
func (h *Host) openController() (opened, error) {
	o := h.o.Profile.controllerOptions(h.index, len(h.nodes))
	id := make([]byte, 16)
	rand.Read(id) // never fails: it would end the process
	store, rec, err := raftstore.Open(raftstore.StoreFile, vfs.OS(h.dir.path), controllerFolder,
		raftstore.Options{Node: o.SelfID, NewStore: ha.StoreID(hex.EncodeToString(id))})
	if err != nil {
		return opened{}, fmt.Errorf("open %s: %w", h.dir.file(controllerFolder), err)
	}
	m, err := controller.New(o, rec)
	if err != nil {
		store.Close() // the reason to end is err
		return opened{}, err
	}
	return opened{m, store, store.Close}, nil
}

// controllerMachine is the local controller, nil while it does not run.
func (h *Host) controllerMachine() *controller.Controller {
	if len(h.seats) == 0 {
		return nil
	}
	c, _ := h.seats[0].machine.(*controller.Controller)
	return c
}
