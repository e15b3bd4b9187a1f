package maelstrom

import (
	"bytes"
	"encoding/json"
	"fmt"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/history"
)

// echo asks nodes to say something back.
type echo struct{ o *Options }

func (e *echo) next(i, _ int) *history.Op {
	return &history.Op{F: history.Echo, Text: fmt.Sprintf("Please echo %d", draw(e.o, "echo", i).Intn(128))}
}

func (e *echo) worker(w *worker) performer { return &echoWorker{w} }

func (e *echo) observe(*history.Op) {}

func (e *echo) final(int, *history.Op) *history.Op { return nil }

func (e *echo) check(ops []*history.Op, _ bool) check.Result { return check.Echo(ops) }

type echoWorker struct{ *worker }

func (w *echoWorker) do(op *history.Op) {
	var answer json.RawMessage
	err := w.client.Call(w.node, w.o.Timeout(), map[string]any{"type": "echo", "echo": op.Text}, map[string]any{"echo": &answer})
	op.Answer = text(answer)
	settle(op, err, false)
}

// text is a string without its quotes, or any other value as compact JSON.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

// uniqueIDs asks for ids that nobody else gets.
type uniqueIDs struct{ o *Options }

func (u *uniqueIDs) next(int, int) *history.Op { return &history.Op{F: history.Generate} }

func (u *uniqueIDs) worker(w *worker) performer { return &idWorker{w} }

func (u *uniqueIDs) observe(*history.Op) {}

func (u *uniqueIDs) final(int, *history.Op) *history.Op { return nil }

func (u *uniqueIDs) check(ops []*history.Op, _ bool) check.Result { return check.UniqueIDs(ops) }

type idWorker struct{ *worker }

func (w *idWorker) do(op *history.Op) {
	var id json.RawMessage
	err := w.client.Call(w.node, w.o.Timeout(), map[string]any{"type": "generate"}, map[string]any{"id": &id})
	if err == nil {
		var compact bytes.Buffer
		if err = json.Compact(&compact, id); err == nil {
			op.Text = compact.String()
		}
	}
	settle(op, err, false)
}

// broadcast adds integers to a set that all nodes share, and reads it.
type broadcast struct {
	o     *Options
	value int64
}

func (b *broadcast) next(i, _ int) *history.Op {
	if draw(b.o, "broadcast", i).Chance(1, 2) {
		return &history.Op{F: history.Read}
	}
	b.value++
	return &history.Op{F: history.Broadcast, Msg: b.value - 1}
}

func (b *broadcast) worker(w *worker) performer { return &broadcastWorker{w} }

func (b *broadcast) observe(*history.Op) {}

// final reads once at each thread.
func (b *broadcast) final(_ int, prev *history.Op) *history.Op {
	if prev != nil {
		return nil
	}
	return &history.Op{F: history.Read}
}

func (b *broadcast) check(ops []*history.Op, _ bool) check.Result { return check.Broadcast(ops) }

type broadcastWorker struct{ *worker }

func (w *broadcastWorker) do(op *history.Op) {
	if op.F == history.Read {
		err := w.client.Call(w.node, w.o.Timeout(), map[string]any{"type": "read"}, map[string]any{"messages": &op.Elements})
		settle(op, err, true)
		return
	}
	err := w.client.Call(w.node, w.o.Timeout(), map[string]any{"type": "broadcast", "message": op.Msg}, nil)
	settle(op, err, false)
}
