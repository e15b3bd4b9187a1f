package scenarios

import (
	"fmt"
	"time"

	"lockstep/internal/decide"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/broker"
	"lockstep/node/client"
	"lockstep/node/controller"
	"lockstep/node/namesrv"
	"lockstep/sim"
	"lockstep/storage"
	"lockstep/storage/raftstore"
)

// watchers is how many consuming clients follow the topic in every run.
const watchers = 2

// open makes the world of the run.
func (r *Run) open(o RunOptions) (err error) {
	if o.Open != nil {
		r.World, err = o.Open(r.simOptions(), r.Plan)
		return err
	}
	w := sim.New(r.simOptions(), r.Plan)
	if o.Observe != nil {
		o.Observe(w)
	}
	r.World = simulated{w}
	return nil
}

// build makes the nodes of the run's setup and wires judges and load to them.
func (r *Run) build() {
	r.Truth = newTruth(&r.Setup)
	r.Truth.now = r.World.Now
	r.Judge = newJudge(&r.Setup, r.Truth, r.World.Now)
	r.Load = NewLoad(&r.Setup, r.World.Now)
	r.Truth.disk = r.disk
	r.Truth.up = func(n string) bool { return n != "" && r.World.Machine(n) != nil }
	r.Truth.committed = r.mostApplied
	r.World.Observe(r.Judge)
	r.Load.OnRead = func(m *client.Received, at int64) { r.Judge.Read(m.Broker, at, m.Log) }
	r.handleActions()
	for i := range r.Setup.Namesrvs {
		r.add(sim.NodeSpec{Name: NamesrvNode(i), Boot: r.bootNamesrv(i)})
	}
	for i := range r.Setup.Controllers {
		r.add(sim.NodeSpec{Name: ControllerNode(i), Boot: r.bootController(i)})
		r.controllers = append(r.controllers, r.World.Node(ControllerNode(i)))
	}
	for g := range r.Setup.Groups {
		for b := range r.Setup.Replicas {
			r.add(sim.NodeSpec{Name: BrokerNode(g, b), Boot: r.bootBroker(g, b)})
		}
	}
	for i := range r.Setup.Clients {
		r.add(sim.NodeSpec{Name: ProducerNode(i), Boot: r.bootClient(ProducerNode(i)), App: func(l sim.Life, _ node.Machine) sim.App {
			return r.Load.NewProducer(i, l.Ordinal, l.Rand)
		}})
	}
	for i := range watchers {
		r.add(sim.NodeSpec{Name: WatcherNode(i), Boot: r.bootClient(WatcherNode(i)), App: func(sim.Life, node.Machine) sim.App {
			return r.Load.NewWatcher(i, r.Setup.WatchAll)
		}})
	}
	r.watchOffsets()
	if r.Drill.Begin != nil {
		r.Drill.Begin(r)
	}
}

func (r *Run) add(s sim.NodeSpec) {
	if r.Drill.Node != nil {
		r.Drill.Node(r, &s)
	}
	r.nodes = append(r.nodes, s.Name)
	r.World.Add(s)
}

// checkEvery is how many batches of a machine lie between two looks at all of its
// invariants, except in runs that look after each.
const checkEvery = 16

func (r *Run) simOptions() sim.Options {
	o := sim.DefaultOptions()
	o.Net.Codec = r.Setup.CodecInLoop
	if r.Setup.Linger {
		o.Linger = decide.Dist{Lo: 0, Hi: int64(200 * time.Microsecond)}
	}
	if !r.Setup.CheckAll {
		o.CheckEvery = checkEvery
	}
	if r.Setup.Skew {
		o.ClockOffset = int64(time.Hour)
		o.WallOffsetMillis = 60_000
		o.DriftPPM = 200
	}
	if r.Drill.World != nil {
		r.Drill.World(&r.Setup, &o)
	}
	return o
}

// mostApplied is the running controller that applied most of the log, nil when
// none runs, and the index it covers.
func (r *Run) mostApplied() (best *controller.Controller, index uint64) {
	for i := range r.controllers {
		c, ok := r.controllers[i].Machine().(*controller.Controller)
		if ok && (best == nil || c.Applied() > index) {
			best, index = c, c.Applied()
		}
	}
	return best, index
}

func (s *Setup) namesrvAddrs() []string {
	var out []string
	for i := range s.Namesrvs {
		out = append(out, addr(NamesrvNode(i), namesrvPort))
	}
	return out
}

func (s *Setup) controllerAddrs() []string {
	var out []string
	for i := range s.Controllers {
		out = append(out, addr(ControllerNode(i), controllerPort))
	}
	return out
}

func (r *Run) bootNamesrv(i int) func(l sim.Life) (node.Machine, sim.Doer, error) {
	return func(l sim.Life) (node.Machine, sim.Doer, error) {
		o := namesrv.DefaultOptions()
		o.ListenAddr = addr(l.Node, namesrvPort)
		m, err := namesrv.New(o)
		return m, nil, err
	}
}

func (r *Run) bootClient(name string) func(l sim.Life) (node.Machine, sim.Doer, error) {
	return func(l sim.Life) (node.Machine, sim.Doer, error) {
		o := client.DefaultOptions()
		o.ClientID = fmt.Sprintf("%s@%d", name, l.Ordinal)
		o.NamesrvAddrs = r.Setup.namesrvAddrs()
		o.ProducerGroup = "drill-producers"
		o.ConsumerGroup = watchGroup
		o.Seed = l.Rand.Uint64()
		m, err := client.New(o)
		return m, nil, err
	}
}

// BrokerOptions is the configuration of a broker of the setup.
func (s *Setup) BrokerOptions(g int, host string) broker.Options {
	o := broker.DefaultOptions()
	o.BrokerName, o.BrokerClusterName = GroupName(g), ClusterName
	o.Listen, o.Address = addr(host, brokerPort), addr(host, brokerPort)
	o.HAListen, o.HAAddress = addr(host, haPort), addr(host, haPort)
	o.ControllerAddr, o.NamesrvAddr = s.controllerAddrs(), s.namesrvAddrs()
	o.TotalReplicas, o.MinInSyncReplicas, o.InSyncReplicas, o.AllAckInSyncStateSet = s.Replicas, s.Min, s.Count, s.All
	o.FlushDiskType, o.AckClass, o.WriteLease = s.Flush, s.Class, s.Lease
	o.LeaseDuration, o.ControllerHeartBeatTimeout = s.LeaseDuration, s.HeartbeatTimeout
	o.HAMaxTimeSlaveNotCatchup, o.CheckSyncStateSetPeriod, o.SlaveTimeout = s.NotCatchup, s.CheckSet, s.SlaveTimeout
	if s.Reserved > 0 {
		o.FileReservedTime = s.Reserved
	}
	o.MappedFileSizeCommitLog, o.HATransferBatchSize, o.MaxHATransferByteInSecond = s.SegmentBytes, s.BatchBytes, s.Throttle
	return o
}

// storeOptions is the store of that broker.
func (s *Setup) storeOptions(g int) storage.Options {
	return storage.Options{Cluster: ClusterName, Group: GroupName(g), Segment: s.SegmentBytes, QueueUnits: 1000,
		MaxRecord: int(min(s.SegmentBytes/4, 1<<20)), RequirePropCRC: true}
}

func (r *Run) bootBroker(g, b int) func(l sim.Life) (node.Machine, sim.Doer, error) {
	return func(l sim.Life) (node.Machine, sim.Doer, error) {
		so := r.Setup.storeOptions(g)
		so.Entropy = l.Rand
		store, rec, err := storage.Open(l.Disk, so)
		if err != nil {
			return nil, nil, err
		}
		o := r.Setup.BrokerOptions(g, l.Node)
		o.WaitTimeMillsInSendQueue += r.World.Slack() // a device that others use too is not a slow disk
		if r.Drill.Broker != nil {
			r.Drill.Broker(r, l, &o)
		}
		m, err := broker.New(o, rec)
		if err != nil {
			return nil, nil, err
		}
		return m, store, nil
	}
}

func (r *Run) bootController(i int) func(l sim.Life) (node.Machine, sim.Doer, error) {
	return func(l sim.Life) (node.Machine, sim.Doer, error) {
		o := r.Setup.controllerOptions(i)
		if r.Drill.Controller != nil {
			r.Drill.Controller(r, l, &o)
		}
		store, rec, err := raftstore.Open(raftstore.StoreFile, l.Disk, "controller", raftstore.Options{
			Node: o.SelfID, NewStore: drawStoreID(l.Rand), SegmentBytes: 64 << 10})
		if err != nil {
			return nil, nil, err
		}
		m, err := controller.New(o, rec)
		if err != nil {
			return nil, nil, err
		}
		return m, store, nil
	}
}

// drawStoreID draws the identity a new store gets.
func drawStoreID(rnd *prng.Source) ha.StoreID {
	return ha.StoreID(fmt.Sprintf("%016x%016x", rnd.Uint64(), rnd.Uint64()))
}

// controllerOptions is the configuration of the i-th controller.
func (s *Setup) controllerOptions(i int) controller.Options {
	o := controller.DefaultOptions()
	o.SelfID = fmt.Sprintf("n%d", i)
	o.Initialise = true
	for k := range s.Controllers {
		o.Peers = append(o.Peers, controller.Peer{Node: fmt.Sprintf("n%d", k), Raft: addr(ControllerNode(k), raftPort), Addr: addr(ControllerNode(k), controllerPort)})
	}
	o.ScanNotActiveBrokerInterval = s.ScanInterval
	o.HeartbeatTimeout = s.HeartbeatTimeout
	o.SessionCloseGrace = s.HeartbeatTimeout
	o.EnableElectUncleanMaster = s.Unclean
	o.LeaseDuration = s.LeaseDuration
	o.WriteLease = controller.LeaseRequired
	if s.Lease == broker.LeaseOff {
		o.WriteLease = controller.LeaseOff
	}
	return o
}
