package rpc

import (
	"context"
	"encoding/json"
	"fmt"
)

// The services that Maelstrom runs beside the nodes.
const (
	LinKV  = "lin-kv"  // linearizable key-value store
	SeqKV  = "seq-kv"  // sequentially consistent key-value store
	LWWKV  = "lww-kv"  // last write wins, eventually
	LinTSO = "lin-tso" // linearizable timestamps
)

// KV is a client of one of the key-value services.
type KV struct {
	service string
	node    *Node
}

// NewKV returns a client of the named service.
func NewKV(service string, node *Node) *KV { return &KV{service, node} }

// NewLinKV returns a client of lin-kv.
func NewLinKV(node *Node) *KV { return NewKV(LinKV, node) }

// NewSeqKV returns a client of seq-kv. A read there may be old: make a write that
// changes something first where it must not.
func NewSeqKV(node *Node) *KV { return NewKV(SeqKV, node) }

// NewLWWKV returns a client of lww-kv.
func NewLWWKV(node *Node) *KV { return NewKV(LWWKV, node) }

// ReadInto reads a key into v. A missing key is an RPCError KeyDoesNotExist.
func (kv *KV) ReadInto(ctx context.Context, key string, v any) error {
	m, err := kv.node.SyncRPC(ctx, kv.service, kvBody{Type: "read", Key: key})
	if err != nil {
		return err
	}
	var b struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(m.Body, &b); err != nil {
		return fmt.Errorf("read_ok of %s does not decode: %w", kv.service, err)
	}
	if err := json.Unmarshal(b.Value, v); err != nil {
		return fmt.Errorf("the value of %s in %s: %w", key, kv.service, err)
	}
	return nil
}

// Read reads a key. A whole number is an int and keeps all its digits.
func (kv *KV) Read(ctx context.Context, key string) (any, error) {
	var raw json.RawMessage
	if err := kv.ReadInto(ctx, key, &raw); err != nil {
		return nil, err
	}
	var n int
	if json.Unmarshal(raw, &n) == nil {
		return n, nil
	}
	var v any
	err := json.Unmarshal(raw, &v)
	return v, err
}

// ReadInt reads a key that holds a whole number.
func (kv *KV) ReadInt(ctx context.Context, key string) (int, error) {
	var n int
	err := kv.ReadInto(ctx, key, &n)
	return n, err
}

// Write sets a key.
func (kv *KV) Write(ctx context.Context, key string, value any) error {
	_, err := kv.node.SyncRPC(ctx, kv.service, struct {
		kvBody
		Value any `json:"value"`
	}{kvBody{"write", key}, value})
	return err
}

// CompareAndSwap sets a key to another value if it has the first: KeyDoesNotExist
// and PreconditionFailed say why not. With create a missing key is made.
func (kv *KV) CompareAndSwap(ctx context.Context, key string, from, to any, create bool) error {
	_, err := kv.node.SyncRPC(ctx, kv.service, struct {
		kvBody
		From   any  `json:"from"`
		To     any  `json:"to"`
		Create bool `json:"create_if_not_exists,omitempty"`
	}{kvBody{"cas", key}, from, to, create})
	return err
}

type kvBody struct {
	Type string `json:"type"`
	Key  string `json:"key"`
}
