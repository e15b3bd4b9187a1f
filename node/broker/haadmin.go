package broker

import (
	"lockstep/node"
	"lockstep/node/wire"
)

// serveHA answers the admin requests about replication, and reports whether the
// code is one of them.
func (b *Broker) serveHA(s node.SessionID, f *wire.Frame) bool {
	switch f.Head.Code {
	case wire.ReqExchangeHAInfo:
		b.serveExchange(s, f)
	case wire.ReqGetHAStatus:
		b.reply(s, f, wire.CodeSuccess, "", nil, wire.MarshalBody(b.haStatus()))
	case wire.ReqGetEpochCache:
		c := wire.NewEpochCache(b.epochs, b.log.end)
		c.BrokerID, c.BrokerName, c.ClusterName = b.id.Broker, b.o.BrokerName, b.o.BrokerClusterName
		b.reply(s, f, wire.CodeSuccess, "", nil, wire.MarshalBody(c))
	case wire.ReqRoleChanged:
		b.roleNotice(f)
		b.reply(s, f, wire.CodeSuccess, "", nil, nil)
	default:
		return false
	}
	return true
}

// serveExchange tells a slave where to replicate from. Only a master knows.
func (b *Broker) serveExchange(s node.SessionID, f *wire.Frame) {
	if !b.role.serving() {
		b.reply(s, f, wire.CodeSystemError, "this broker is not the master", nil, nil)
		return
	}
	b.reply(s, f, wire.CodeSuccess, "", wire.EncodeExt(wire.ExchangeHAInfo{
		MasterHAAddress: b.o.HAAddress, MasterFlushOffset: b.log.durable, MasterAddress: b.o.Address}), nil)
}

// haStatus is the body of code 907.
func (b *Broker) haStatus() wire.HARuntimeInfo {
	st := wire.HARuntimeInfo{Master: b.role.serving(), MasterCommitLogMaxOffset: b.log.end, Connections: []wire.HAConnectionInfo{}}
	if st.Master {
		st.InSyncSlaveNums = int32(len(b.set.committed) - 1)
	}
	for _, r := range b.replicas {
		if r.phase != replicaStarted {
			continue
		}
		st.Connections = append(st.Connections, wire.HAConnectionInfo{
			Addr: r.addr, SlaveAckOffset: r.acked, Diff: int64(b.log.end - r.acked), InSync: b.set.provenAs(r.self), TransferFromWhere: r.sent,
		})
	}
	if b.role.kind == roleSlave {
		st.Client = wire.HAClientInfo{MasterAddr: b.up.haAddr, MaxOffset: b.log.end, MasterFlushOffset: b.up.confirm, Activated: b.up.phase == upStarted}
	}
	return st
}
