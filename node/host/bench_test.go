package host

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"lockstep/node"
	"lockstep/node/wire"
)

// BenchmarkEcho is the host's ceiling: requests of 1 KiB, answered at once. One
// operation is one request and its answer; waiting is how many are under way.
func BenchmarkEcho(b *testing.B) {
	for _, c := range []struct{ conns, waiting int }{{64, 64}, {4, 64}, {1, 1}, {8, 512}} {
		b.Run(fmt.Sprintf("conns=%d/waiting=%d", c.conns, c.waiting), func(b *testing.B) {
			m := newToy(remoting())
			m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
				m.fx.Send(s, wire.NewResponse(&f.Head, 0, nil, nil))
			}
			m.settle = nil
			n := start(b, Options{Machine: &frugal{toy: m}})
			text := strings.Repeat("x", 1024)
			one := encode(b, wire.NewRequest(310, 1, wire.SendMessageRequest{ProducerGroup: "bench", Topic: "bench"}, []byte(text)))
			b.SetBytes(int64(len(one)))
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range c.conns {
				p := connect(b, n.Addrs()[0], wire.Remoting)
				share := b.N / c.conns
				if i < b.N%c.conns {
					share++
				}
				wg.Go(func() { pump(p, one, share, c.waiting/c.conns) })
			}
			wg.Wait()
			s := n.Stats()
			b.ReportMetric(float64(s.Facts)/float64(s.Batches), "facts/batch")
			b.ReportMetric(float64(s.Writes)/float64(b.N), "writes/op")
		})
	}
}

// pump keeps up to depth requests under way until total are answered.
func pump(p *peer, one []byte, total, depth int) {
	in := make([]byte, 64<<10)
	var rest, out []byte
	sent, got := 0, 0
	for got < total {
		out = out[:0]
		for ; sent < total && sent-got < depth; sent++ {
			out = append(out, one...)
		}
		if len(out) > 0 {
			p.write(out)
		}
		k, err := p.c.Read(in)
		if err != nil {
			p.t.Error(err)
			return
		}
		rest = append(rest, in[:k]...)
		at := 0
		for {
			size, _ := p.dec.Size(rest[at:]) // the sizes are our own answers'
			if size == 0 || len(rest)-at < size {
				break
			}
			at += size
			got++
		}
		rest = append(rest[:0], rest[at:]...)
	}
}

// frugal is a toy that gives its memory back to itself, as real machines do.
type frugal struct{ *toy }

func (f *frugal) Settle(_ node.Now, fx *node.Effects) {
	fx.Sends = append(fx.Sends, f.fx.Sends...)
	f.fx.Reset()
}
