package netsim

import (
	"reflect"
	"slices"
	"testing"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// TestCopyIsClone: a copy shares nothing with its source, whatever fields a
// frame has.
func TestCopyIsClone(t *testing.T) {
	frames := []wire.Frame{
		{Body: []byte("b"), Head: wire.Head{Remark: "r", Ext: wire.Ext{{Key: "k", Value: "v"}}}, Prepared: 5},
		{Send: &wire.SendMessageRequest{Topic: "T"}}, {SendOK: &wire.SendMessageResponse{MsgID: "x"}},
		{Pull: &wire.PullRequest{Topic: "T"}}, {PullOK: &wire.PullResponse{MaxOffset: 4}},
		{Link: wire.Replication, Replica: &wire.Replica{Group: "g", Epochs: ha.Epochs{{Epoch: 1, Start: 2}}}},
	}
	set := map[string]bool{}
	var a arena
	for i := range frames {
		f := &frames[i]
		got, want := a.copyFrame(f), f.Clone()
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("copy %+v, clone %+v", *got, want)
		}
		v, c := reflect.ValueOf(f).Elem(), reflect.ValueOf(got).Elem()
		for j := range v.NumField() {
			x, y := v.Field(j), c.Field(j)
			if k := x.Kind(); (k == reflect.Pointer || k == reflect.Slice) && !x.IsNil() {
				set[v.Type().Field(j).Name] = true
				if x.Pointer() == y.Pointer() {
					t.Fatalf("%s is shared", v.Type().Field(j).Name)
				}
			}
		}
		if f.Head.Ext != nil && &f.Head.Ext[0] == &got.Head.Ext[0] || f.Replica != nil && &f.Replica.Epochs[0] == &got.Replica.Epochs[0] {
			t.Fatal("nested fields are shared")
		}
	}
	ft := reflect.TypeFor[wire.Frame]()
	for j := range ft.NumField() {
		if k := ft.Field(j).Type.Kind(); (k == reflect.Pointer || k == reflect.Slice) && !set[ft.Field(j).Name] {
			t.Errorf("field %s is not covered here: teach copyFrame about it", ft.Field(j).Name)
		}
	}
}

// TestKeyedByTheThing: one more frame of another kind leaves every other
// frame's latency as it was.
func TestKeyedByTheThing(t *testing.T) {
	times := func(extra bool) (out []int64) {
		l := newLab(t, noTail(), 19, 2)
		s, _ := l.dial(0, 1, "b:1")
		for i := range int32(50) {
			if extra && i == 10 {
				l.net.Send(l.now, 0, s, &wire.Frame{Head: wire.Head{Code: 34}})
				l.run(l.now + 5*ms)
			} else {
				l.run(l.now + 5*ms)
			}
			at := l.now
			l.send(0, s, i, i+1, 1)
			l.run(l.now + 5*ms)
			out = append(out, l.last(1).at-at)
		}
		return out
	}
	if a, b := times(false), times(true); !slices.Equal(a, b) {
		t.Fatalf("latencies shifted:\n%v\n%v", a, b)
	}
}
