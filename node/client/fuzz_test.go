package client

import (
	"testing"
	"time"

	"lockstep/node/wire"
)

// FuzzReceive: whatever a peer sends on a stream that the client dialled, nothing
// panics, every operation still ends within its budget, and a send that no broker
// said yes to is not done.
func FuzzReceive(f *testing.F) {
	add := func(frame wire.Frame) {
		b, err := wire.AppendFrame(nil, &frame, wire.JSON)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	d := routed(2, "ga", addrA)
	for opaque := int32(1); opaque <= 6; opaque++ {
		head := wire.Head{Opaque: opaque}
		add(wire.NewResponse(&head, 0, nil, wire.MarshalBody(&d)))
		add(wire.NewResponse(&head, 0, &wire.SendMessageResponse{MsgID: "x", QueueID: 1, QueueOffset: 2}, nil))
		add(wire.NewResponse(&head, 0, pullAnswer(5, 1, 9), []byte("no message")))
		add(wire.NewResponse(&head, 19, pullAnswer(5, 1, 9), nil))
		add(wire.NewResponse(&head, 21, pullAnswer(-5, 9, 1), nil))
		add(wire.NewResponse(&head, 0, &wire.OffsetResponse{Offset: -3}, nil))
		add(wire.NewFailure(&head, 12, ""))
		add(wire.NewFailure(&head, 1500, ""))
	}
	add(wire.NewRequest(wire.ReqGetConsumerRunningInfo, 3, nil, nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := newRig(t, nil)
		r.routes["T"] = routed(1, "ga", addrA)
		r.send(Message{})
		if _, err := r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga", Offset: 4, Suspend: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.c.Subscribe(r.now, Subscription{Topic: "T"}); err != nil {
			t.Fatal(err)
		}
		r.settle()
		yes := false
		for len(raw) > 0 {
			frame, n, err := wire.Decode(wire.Remoting, raw)
			if err != nil || n == 0 {
				break
			}
			raw = raw[n:]
			yes = yes || frame.Head.Response() && frame.Head.Code == 0
			for _, addr := range []string{addrA, ns1} {
				r.c.Receive(r.now, r.session[addr], &frame)
				r.settle()
			}
			r.advance(50 * time.Millisecond)
		}
		r.advance(2 * (r.c.opt.BrokerSuspendMaxTime + r.c.opt.PullGrace))
		if n := r.c.Unfinished(); n != 0 {
			t.Fatalf("%d operations did not end", n)
		}
		for _, o := range r.outcomes {
			if o.Op == OpSend && o.Status == Done && !yes {
				t.Fatalf("%s, but no broker said so", &o)
			}
		}
	})
}

// FuzzDecodeMessages: any pull body is taken whole or refused.
func FuzzDecodeMessages(f *testing.F) {
	one := stored(f, 0, 1, "tag", "body", 0)
	f.Add(one)
	f.Add(append(append([]byte{}, one...), one...))
	f.Add(one[:len(one)-1])
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, err := decodeMessages(body, "ga")
		if err != nil && messages != nil {
			t.Fatal("messages beside an error")
		}
		if err == nil && len(body) > 0 && len(messages) == 0 {
			t.Fatal("bytes without messages were taken")
		}
	})
}
