package broker

import (
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// loop is a master and a slave joined back to back without a world around them:
// what it allocates, the machines allocate.
type loop struct {
	m, s       *Broker
	up, down   node.SessionID // the replication session as the slave and as the master know it
	client     node.SessionID
	fx         [2]node.Effects
	now        node.Time
	answers    int
	code       int32
	lastFrames [2]int
}

func newLoop(t failer) *loop {
	w := started(t, 2, func(n int, o *Options) {
		o.MappedFileSizeCommitLog = 1 << 30
		o.MaxTailBytes = 4 << 20
		o.WriteLease = LeaseOff
		o.HATransferBatchSize, o.HATransferWindow = 128<<10, 8<<20
		o.MetaCheckpointBytes = 1 << 30
	})
	c := w.client(w.master())
	c.send("makes the topic")
	w.run(2 * time.Second)
	l := &loop{m: w.master().b, s: w.slaves()[0].b, now: w.now, client: c.s.ids[1]}
	l.up, l.down = l.s.up.session, l.m.replicas[0].session
	return l
}

func (l *loop) clock() node.Now { return node.Now{Mono: l.now, Wall: int64(l.now) / 1e6} }

// settle lets one side act and performs its effects at once.
func (l *loop) settle(b *Broker, side int) {
	fx := &l.fx[side]
	fx.Reset()
	b.Settle(l.clock(), fx)
	for i := range fx.Disk {
		b.DiskDone(l.clock(), storage.Result{Op: fx.Disk[i]})
	}
	for i := range fx.Sends {
		s := &fx.Sends[i]
		switch s.To {
		case l.up:
			l.m.Receive(l.clock(), l.down, &s.Frame)
		case l.down:
			l.s.Receive(l.clock(), l.up, &s.Frame)
		case l.client:
			l.answers++
			l.code = s.Frame.Head.Code
		}
	}
}

// produce sends prepared requests and runs until all are answered.
func (l *loop) produce(frames []*wire.Frame) bool {
	want := l.answers + len(frames)
	for _, f := range frames {
		f.Prepared.(*preparedSend).arrived = l.now
		l.m.Receive(l.clock(), l.client, f)
	}
	for i := 0; l.answers < want; i++ {
		if i == 100 {
			return false
		}
		l.now += 20_000
		l.settle(l.m, 0)
		l.settle(l.s, 1)
	}
	return l.code == 0
}

func prepared(l *loop, n, size int) []*wire.Frame {
	var out []*wire.Frame
	for i := range n {
		f := wire.NewRequest(wire.ReqSendMessageV2, int32(i+1), &wire.SendMessageRequest{ProducerGroup: "p", Topic: "T", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4,
			QueueID: int32(i % 4), BornTimestamp: 1}, make([]byte, size))
		l.m.Prepare(l.clock(), &f, node.Peer{Link: wire.Remoting, Addr: "10.0.0.1:1"})
		out = append(out, &f)
	}
	return out
}

// TestHotPathAllocates: in steady state a message costs the machines of master and
// slave no allocation of its own: what there is (chunks of the tail, headers of
// frames and answers) comes in blocks that serve many.
func TestHotPathAllocates(t *testing.T) {
	l := newLoop(t)
	frames := prepared(l, 64, 1024)
	for range 200 {
		if !l.produce(frames) {
			t.Fatalf("answered with code %d", l.code)
		}
	}
	perBatch := testing.AllocsPerRun(300, func() {
		if !l.produce(frames) {
			t.Fatalf("answered with code %d", l.code)
		}
	})
	if perMessage := perBatch / 64; perMessage > 0.15 {
		t.Errorf("%.2f allocations a message, %v a batch of 64", perMessage, perBatch)
	}
}

// BenchmarkProduce is a full cycle: produce, write, sync, replicate, acknowledge,
// confirm, answer.
func BenchmarkProduce(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(map[int]string{1: "one", 16: "sixteen", 64: "sixty-four"}[n], func(b *testing.B) {
			l := newLoop(benchFailer{b})
			frames := prepared(l, n, 1024)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				if !l.produce(frames) {
					b.Fatalf("answered with code %d", l.code)
				}
			}
		})
	}
}

type benchFailer struct{ *testing.B }
