package maelstrom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lockstep/node"
	"lockstep/node/host/maelstrom/rpc"
	"lockstep/node/wire"
)

// registerTask is one request of the lin-kv workload: a register of the
// controllers, named by the key's JSON text. It goes to the leading controller;
// reads pass its read barrier, writes its log.
type registerTask struct {
	code   int32
	header wire.RegisterRequest
	value  string // read
	ok     string // type of the answer
}

// maxText bounds a key or value, bytes of JSON; the controllers' own limit.
const maxText = 256

// registerText is the compact JSON text of a key or value.
func registerText(name string, raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" && name == "key" {
		return "", rpc.NewRPCError(rpc.MalformedRequest, name+" is missing")
	}
	if err := json.Compact(&b, raw); err != nil {
		return "", rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("%s: %v", name, err))
	}
	if b.Len() > maxText {
		return "", rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("%s has %d bytes, at most %d", name, b.Len(), maxText))
	}
	if tooDeep(raw) {
		return "", rpc.NewRPCError(rpc.MalformedRequest, fmt.Sprintf("%s is nested more than %d levels deep", name, maxDepth))
	}
	return b.String(), nil
}

// newRegister reads a request of type read, write or cas.
func newRegister(m *rpc.Message) (task, error) {
	var b struct {
		Key   json.RawMessage `json:"key"`
		Value json.RawMessage `json:"value"`
		From  json.RawMessage `json:"from"`
		To    json.RawMessage `json:"to"`
	}
	if err := m.Decode(&b); err != nil {
		return nil, err
	}
	var err error
	take := func(name string, raw json.RawMessage) string {
		text, wrong := registerText(name, raw)
		if err == nil {
			err = wrong
		}
		return text
	}
	t := &registerTask{}
	t.header.Name = take("key", b.Key)
	switch m.Type() {
	case "read":
		t.code, t.ok = wire.ReqReadRegister, "read_ok"
	case "write":
		t.code, t.ok = wire.ReqWriteRegister, "write_ok"
		t.header.Value = take("value", b.Value)
	default:
		t.code, t.ok = wire.ReqSwapRegister, "cas_ok"
		t.header.From, t.header.Value = take("from", b.From), take("to", b.To)
	}
	return t, err
}

func (t *registerTask) parts() int                     { return 1 }
func (t *registerTask) harmless() bool                 { return t.code == wire.ReqReadRegister }
func (t *registerTask) definite() bool                 { return true }
func (t *registerTask) limit(p *Profile) time.Duration { return p.AnswerRegister }

// where is the leading controller, as the local one knows it.
func (t *registerTask) where(g *gateway, now node.Now, began node.Time) string {
	c := g.h.controllerMachine()
	if c == nil {
		return ""
	}
	leader := c.Leader()
	for i := range g.h.nodes {
		if controllerID(i) == leader {
			return addrOf(i, portController)
		}
	}
	return ""
}

func (t *registerTask) request(int) (int32, any, []byte) { return t.code, t.header, nil }

func (t *registerTask) take(g *gateway, now node.Now, _ int, f *wire.Frame) (verdict, *rpc.RPCError) {
	failed := func(code int) (verdict, *rpc.RPCError) { return partFailed, rpc.NewRPCError(code, f.Head.Remark) }
	switch f.Head.Code {
	case wire.CodeSuccess:
		if t.harmless() {
			var h wire.RegisterResponse
			if err := f.Header(&h); err != nil || !json.Valid([]byte(h.Value)) {
				return partFailed, rpc.NewRPCError(rpc.Crash, "the answer of the controller does not decode")
			}
			t.value = h.Value
		}
		return partDone, nil
	case wire.CodeNotLeader, wire.CodeSystemBusy:
		return partAgain, nil // nothing was done
	case wire.CodeRegisterNotExist:
		return failed(rpc.KeyDoesNotExist)
	case wire.CodeRegisterDiffers:
		return failed(rpc.PreconditionFailed)
	case wire.CodeRegistersFull:
		return failed(rpc.Abort)
	case wire.CodeInvalidRequest:
		return failed(rpc.MalformedRequest)
	}
	if t.harmless() {
		return partAgain, nil
	}
	return failed(rpc.Crash) // it may still be committed
}

func (t *registerTask) reply() any {
	if !t.harmless() {
		return typeOnly{t.ok}
	}
	return struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	}{t.ok, json.RawMessage(strings.Clone(t.value))}
}
