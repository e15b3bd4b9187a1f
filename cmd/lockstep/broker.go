package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/node/broker"
	"lockstep/node/host"
	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

func newBroker(l *logging) *cobra.Command {
	c := daemon(l, "broker", "Run a broker", `Run a broker: one replica of a broker group's log. The brokers of a group have the
same brokerName; the controllers give them their ids and decide who is master.

A minimal file of a group of three:
  brokerClusterName=DefaultCluster
  brokerName=broker-a
  brokerIP1=10.0.0.11
  storePathRootDir=/var/lib/lockstep/broker
  namesrvAddr=10.0.0.1:9876
  controllerAddr=10.0.0.1:9878;10.0.0.2:9878;10.0.0.3:9878

A write is acknowledged when every member of the in-sync set has it on disk, and
refused while fewer than two are in it. flushDiskType, allAckInSyncStateSet,
inSyncReplicas, minInSyncReplicas and totalReplicas change that.
SIGTERM hands the mastership over first; a second one ends the process at once.`, loadBroker)
	return c
}

// brokerPlace is where a broker listens and keeps its data.
type brokerPlace struct {
	// BrokerIP1 is the address clients dial, BrokerIP2 the one replicas dial.
	BrokerIP1 string `key:"brokerIP1"`
	BrokerIP2 string `key:"brokerIP2"`
	// HAListenPort is the replication port.
	HAListenPort int `key:"haListenPort"`
	// StorePathRootDir holds the commit log and everything derived from it.
	StorePathRootDir string `key:"storePathRootDir"`
	// MappedFileSizeConsumeQueue is the size of a consume queue file, bytes; a
	// multiple of 20.
	MappedFileSizeConsumeQueue int `key:"mappedFileSizeConsumeQueue"`
	// EnableControllerMode must be true, and is the default.
	EnableControllerMode bool `key:"enableControllerMode"`
}

func loadBroker(c *conf, f *confFlags) (unit, []string, error) {
	p := process{ListenPort: 10911, BindAddress: "0.0.0.0", ServerChannelMaxIdleTimeSeconds: host.DefaultIdle}
	o := broker.DefaultOptions()
	at := brokerPlace{HAListenPort: 10912, StorePathRootDir: "${user.home}/store", MappedFileSizeConsumeQueue: storage.DefaultQueueUnits * 20, EnableControllerMode: true}
	c.role()
	c.bind(&p)
	c.bind(&o)
	c.bind(&at)
	p.check(c)
	c.port("haListenPort", at.HAListenPort, 1)
	c.adminApart(&p, ownPort{"haListenPort", at.HAListenPort})
	p.ListenPort, at.HAListenPort = orDefault(p.ListenPort, 10911), orDefault(at.HAListenPort, 10912)
	c.addresses(&o, &at, &p)
	path, err := absolute(at.StorePathRootDir)
	c.problem(err)
	if at.StorePathRootDir == "" {
		c.problemf("storePathRootDir is empty: name the directory for this broker's log")
	}
	c.brokerModes(&at, path)
	c.policy(&o)
	c.floor(&o)
	c.lease(o.LeaseDuration, o.WriteLease == broker.LeaseOff)
	if o.NamesrvAddr == nil && !c.file.Has("namesrvAddr") {
		o.NamesrvAddr = strings.FieldsFunc(os.Getenv("NAMESRV_ADDR"), func(r rune) bool { return r == ';' || r == ',' })
	}
	c.problem(o.Validate())
	so := storage.Options{Cluster: o.BrokerClusterName, Group: o.BrokerName, Segment: o.MappedFileSizeCommitLog,
		QueueUnits: at.MappedFileSizeConsumeQueue / 20, MaxRecord: int(min(o.MappedFileSizeCommitLog-storage.BlankHeader, wire.MaxFrameBytes/2)),
		RequirePropCRC: o.EnabledAppendPropCRC, ProcessID: os.Getpid(), Entropy: rand.Reader}
	if n := at.MappedFileSizeConsumeQueue; n <= 0 || n%20 != 0 {
		c.problemf("mappedFileSizeConsumeQueue=%d is not a multiple of 20 above 0", n)
	}
	if len(c.problems) == 0 {
		c.problem(so.Validate())
	}
	u := unit{name: o.BrokerName + "@" + o.Address, phase: "the store is being recovered", admin: p.admin(), idle: p.ServerChannelMaxIdleTimeSeconds,
		open: func() (opened, error) { return openBroker(o, so, path) }}
	return u, effective(nil, &p, &at, &o), c.finish(f.allowUnknown)
}

// role keeps RocketMQ's SLAVE from being read as a spelling mistake.
func (c *conf) role() {
	if v, ok := c.file.Get("brokerRole"); ok && strings.EqualFold(v, "SLAVE") {
		c.problemf("brokerRole=SLAVE: the controllers decide who is master and who is slave; remove the line")
		c.file.Set("brokerRole", broker.SyncMaster.String())
	}
}

// addresses derives what is bound and what others dial from RocketMQ's keys.
func (c *conf) addresses(o *broker.Options, at *brokerPlace, p *process) {
	if at.BrokerIP1 == "" {
		at.BrokerIP1 = firstIP()
	}
	if at.BrokerIP2 == "" {
		at.BrokerIP2 = at.BrokerIP1
	}
	for _, a := range []struct {
		addr *string
		key  string
		host string
		port int
	}{
		{&o.Address, "brokerAddr", at.BrokerIP1, p.ListenPort}, {&o.HAAddress, "haServerAddr", at.BrokerIP2, at.HAListenPort},
		{&o.Listen, "listenAddr", p.BindAddress, p.ListenPort}, {&o.HAListen, "haListenAddr", p.BindAddress, at.HAListenPort},
	} {
		if !c.file.Has(a.key) {
			*a.addr = join(a.host, a.port)
		}
	}
}

// brokerModes refuses what would run the broker in another mode than its file
// asks for, and names what RocketMQ needs and controller mode does not.
func (c *conf) brokerModes(at *brokerPlace, root string) {
	if !at.EnableControllerMode {
		c.problemf("enableControllerMode=false: brokers run in controller mode only; set it to true and name the controllers in controllerAddr")
	}
	c.refuse("enableDLegerCommitLog", "true", "brokers run in controller mode; a DLedger log cannot be opened; remove the line and start with an empty storePathRootDir")
	c.refuse("storeType", "defaultRocksDB", "consume queues are kept in files; remove the line")
	c.refuse("isInBrokerContainer", "true", "run one process a broker")
	c.refuse("fetchNamesrvAddrByAddressServer", "true", "list the name servers in namesrvAddr")
	c.noEffect("brokerId", "in controller mode the controllers assign broker ids")
	c.noEffect("haMasterAddress", "the controllers tell who is master")
	if v, ok := c.take("storePathCommitLog"); ok {
		if log, err := absolute(v); err != nil || log != filepath.Join(root, "commitlog") {
			c.problemf("storePathCommitLog=%s: the commit log is at %s/commitlog; move it there and remove the line", v, root)
		}
	}
	refuseAccessControl(c)
}

// policy follows an explicit choice of RocketMQ's where a default of this product
// would contradict it, and names what a default makes ineffective.
func (c *conf) policy(o *broker.Options) {
	if c.file.Has("allAckInSyncStateSet") {
		return
	}
	switch {
	case o.BrokerRole == broker.AsyncMaster:
		o.AllAckInSyncStateSet = false
	case o.AllAckInSyncStateSet && c.file.Has("inSyncReplicas"):
		c.notes = append(c.notes, fmt.Sprintf("inSyncReplicas=%d has no effect while every member of the in-sync set acknowledges, which is the default here; set allAckInSyncStateSet=false to count replicas", o.InSyncReplicas))
	}
}

// floor replaces the 0 that means the default by what it means, so that the printed
// configuration is the one in force.
func (c *conf) floor(o *broker.Options) {
	if o.MinInSyncReplicas != 0 || o.TotalReplicas < 1 {
		return
	}
	o.MinInSyncReplicas = o.MinInSync()
	if c.file.Has("minInSyncReplicas") {
		c.notes = append(c.notes, fmt.Sprintf("minInSyncReplicas=0 means the default, the smaller of 2 and totalReplicas: %d; to take writes with the master alone set 1", o.MinInSyncReplicas))
	}
}

// openBroker recovers the store and makes the machine. Meanwhile it looks whether
// the controllers' addresses are what they should be.
func openBroker(o broker.Options, so storage.Options, path string) (opened, error) {
	wrong := make(chan error, 1)
	go func() { wrong <- checkControllers(o.ControllerAddr) }()
	if err := vfs.MakeDir(path); err != nil {
		return opened{}, fmt.Errorf("storePathRootDir: %w", err)
	}
	store, rec, err := storage.Open(vfs.OS(path), so)
	if err != nil {
		return opened{}, fmt.Errorf("open storePathRootDir %s: %w", path, err)
	}
	m, err := broker.New(o, rec)
	if err == nil {
		err = <-wrong
	}
	if err != nil {
		store.Close() // the reason to end is err
		return opened{}, err
	}
	return opened{m, store, store.Close}, nil
}
