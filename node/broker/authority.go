package broker

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node/wire"
	"lockstep/storage"
)

// view is the controllers' record of this group as far as this broker knows: it
// comes with answers to register, elect, poll and alter, and with notices. Any one
// of them alone is enough to converge.
type view struct {
	epoch      ha.MasterEpoch
	setEpoch   ha.SetEpoch
	set        ha.IDs
	master     ha.BrokerID
	masterAddr string
	masterHA   string
	store      ha.StoreID // of the master; "" from a Java controller
	boot       ha.Boot
	minInSync  int32
	floor      ha.LogOffset
	unclean    bool
	members    wire.Members
	retained   ha.IDs
	heard      bool // anything was heard in this life
}

// viewOf puts an answer's fields together. An answer without a master has id 0 or
// none, because a null id is absent on the wire and real ids start at 1.
func viewOf(master ha.BrokerID, addr string, epoch ha.MasterEpoch, set wire.SyncStateSetBody, m wire.MasterView) view {
	if master <= 0 || addr == "" {
		master, addr = ha.NoBroker, ""
	}
	return view{
		epoch: epoch, setEpoch: set.SyncStateSetEpoch, set: ha.NewIDs(set.SyncStateSet...),
		master: master, masterAddr: addr, masterHA: m.HAAddress, store: m.Store, boot: m.Boot,
		minInSync: m.MinInSync, floor: m.Floor, unclean: m.Unclean, members: m.Members, retained: m.Retained, heard: true,
	}
}

// isLife reports whether the record speaks of this very life of the store. A Java
// controller names no life, so any is meant.
func (v *view) isLife(id storage.Identity) bool {
	return v.store == "" || v.store == id.Store && v.boot == id.Boot
}

// believe takes a record of the group into account. A lower epoch is ignored (late,
// or from a controller that lost its state: registration will raise it, P17). An
// equal epoch with another master is impossible and changes nothing.
func (b *Broker) believe(v view) {
	old := &b.view
	switch {
	case v.epoch <= 0 || v.epoch < b.highest:
		return
	case v.epoch == old.epoch && v.master != old.master && v.master != ha.NoBroker && old.master != ha.NoBroker:
		b.emit(event.Event{Kind: event.RequestRefused, Epoch: v.epoch, Broker: v.master,
			Text: fmt.Sprintf("epoch %d names master %d after master %d: ignored", v.epoch, v.master, old.master)})
		return
	case v.epoch == old.epoch && v.setEpoch < old.setEpoch:
		return // overtaken on its way
	}
	if v.epoch == old.epoch && v.master == ha.NoBroker {
		// Same term, "no live master": what the master is stays known.
		v.master, v.masterAddr, v.masterHA, v.store, v.boot = old.master, old.masterAddr, old.masterHA, old.store, old.boot
	}
	if len(v.members) == 0 {
		v.members = old.members
	}
	*old = v
	b.highest = max(b.highest, v.epoch)
	if v.epoch == b.role.epoch && b.role.serving() {
		b.adoptSet(v.set, v.setEpoch)
	}
	b.checkSuperseded()
}

// checkSuperseded fences a process whose store runs elsewhere with a higher boot:
// a copied disk, or two processes on one identity (P18).
func (b *Broker) checkSuperseded() {
	m, ok := b.view.members.Find(b.id.Broker)
	if ok && b.reg.registered && m.Store == b.id.Store && m.Boot > b.id.Boot && b.superseded == "" {
		b.superseded = fmt.Sprintf("broker %d of store %s runs elsewhere as boot %d, this is boot %d: stop one of the two, and never copy a store without a rebuild",
			m.Broker, m.Store, m.Boot, b.id.Boot)
		b.loseRole(b.superseded)
	}
}
