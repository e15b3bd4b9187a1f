package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/broker"
	"lockstep/node/controller"
	"lockstep/node/host"
	"lockstep/node/namesrv"
	"lockstep/storage"
	"lockstep/storage/raftstore"
	"lockstep/storage/vfs"
)

// segmentBytes keeps the recording's store small.
const segmentBytes = 16 << 20

// servers are one name server, one controller and one broker in this process.
type servers struct {
	nodes  []*host.Node
	closes []func() error
	ports  []int
	rec    *Recorder
	dir    string
}

func (s *servers) addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", s.ports[i]) }

// serve starts the servers with recording hooks.
func serve(dir string, rec *Recorder) (*servers, error) {
	s := &servers{rec: rec, dir: dir}
	for range 5 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close() // all five are held until all are known, so that they differ
		s.ports = append(s.ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return s, nil
}

func (s *servers) start() error {
	return errors.Join(s.startNamesrv(), s.startController(), s.startBroker())
}

func (s *servers) run(name string, m node.Machine, disk host.Doer) error {
	o := host.Options{Name: name, Machine: m, Disk: disk}
	o.OnDeliver, o.OnSend = s.rec.Watch(name)
	n, err := host.Start(o)
	if err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	return nil
}

func (s *servers) startNamesrv() error {
	o := namesrv.DefaultOptions()
	o.ListenAddr, o.NeedWaitForService = s.addr(0), false
	m, err := namesrv.New(o)
	if err != nil {
		return err
	}
	return s.run("namesrv", m, nil)
}

func (s *servers) startController() error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	o := controller.DefaultOptions()
	o.SelfID, o.Initialise = "n0", true
	o.Peers = []controller.Peer{{Node: "n0", Raft: s.addr(2), Addr: s.addr(1)}}
	store, rec, err := raftstore.Open(raftstore.StoreFile, vfs.OS(s.dir), "controller", raftstore.Options{Node: "n0", NewStore: ha.StoreID(hex.EncodeToString(id))})
	if err != nil {
		return err
	}
	s.closes = append(s.closes, store.Close)
	m, err := controller.New(o, rec)
	if err != nil {
		return err
	}
	return s.run("controller", m, store)
}

func (s *servers) startBroker() error {
	o := broker.DefaultOptions()
	o.BrokerName, o.BrokerClusterName = "broker-a", "SessionCluster"
	o.Listen, o.Address, o.HAListen, o.HAAddress = s.addr(3), s.addr(3), s.addr(4), s.addr(4)
	o.ControllerAddr, o.NamesrvAddr = []string{s.addr(1)}, []string{s.addr(0)}
	o.TotalReplicas, o.MinInSyncReplicas, o.MappedFileSizeCommitLog = 1, 1, segmentBytes
	disk := vfs.OS(filepath.Join(s.dir, "broker"))
	if err := disk.MkdirAll("."); err != nil {
		return err
	}
	store, rec, err := storage.Open(disk, storage.Options{Cluster: o.BrokerClusterName, Group: o.BrokerName,
		Segment: segmentBytes, RequirePropCRC: o.EnabledAppendPropCRC, Entropy: rand.Reader})
	if err != nil {
		return err
	}
	s.closes = append(s.closes, store.Close)
	m, err := broker.New(o, rec)
	if err != nil {
		return err
	}
	return s.run("broker", m, store)
}

func (s *servers) stop() error {
	var errs []error
	for i := len(s.nodes) - 1; i >= 0; i-- {
		s.nodes[i].Stop()
		if e := s.nodes[i].Wait(); e.Code != node.ExitClean {
			errs = append(errs, fmt.Errorf("%s ended with %d: %s", s.nodes[i].Name(), e.Code, e.Reason))
		}
	}
	for _, c := range s.closes {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// Record lets the stock client (built from chaos/interop) produce and consume
// against fresh servers in dir and returns what was said. It takes about half a
// minute, because a stock consumer commits its offsets late.
func Record(client, dir string) (list []Exchange, err error) {
	rec := NewRecorder("GO")
	s, err := serve(dir, rec)
	if err != nil {
		return nil, err
	}
	err = s.start()
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return nil, err
	}
	args := func(verb, prefix string, lasts time.Duration) []string {
		return []string{verb, "--namesrv", s.addr(0), "--topic", "SessionTopic", "--prefix", prefix, "--out", filepath.Join(dir, verb+prefix+".jsonl"),
			"--rate", "20", "--workers", "2", "--for", lasts.String()}
	}
	if err := exec.Command(client, args("produce", "first", 4*time.Second)...).Run(); err != nil {
		return nil, fmt.Errorf("stock producer: %w", err)
	}
	consumer := exec.Command(client, args("consume", "a", 25*time.Second)...)
	if err := consumer.Start(); err != nil {
		return nil, fmt.Errorf("stock consumer: %w", err)
	}
	second := exec.Command(client, args("consume", "b", 12*time.Second)...) // a second member changes the group
	errs := []error{second.Run(), exec.Command(client, args("produce", "second", 5*time.Second)...).Run(), consumer.Wait()}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("stock client: %w", err)
	}
	return rec.Exchanges(), nil
}
