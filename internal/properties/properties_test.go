package properties

import (
	"strings"
	"testing"
	"time"
)

type mode uint8

func (m mode) String() string { return [...]string{"required", "off"}[m%2] }

type inner struct {
	Depth int `key:"depth"`
}

type options struct {
	inner
	Name   string        `key:"brokerName"`
	Addrs  []string      `key:"namesrvAddr"`
	Wait   time.Duration `key:"slaveTimeout"`
	Keep   time.Duration `key:"fileReservedTime" unit:"h"`
	On     bool          `key:"allAckInSyncStateSet"`
	Count  int32         `key:"inSyncReplicas"`
	Lease  mode          `key:"writeLease"`
	Hidden string
}

const good = `# a comment
brokerName = broker-a
namesrvAddr=127.0.0.1:9876;127.0.0.2:9876
slaveTimeout=3000
fileReservedTime=72
allAckInSyncStateSet=TRUE
inSyncReplicas=2
writeLease=OFF
depth=7
aclEnable=false
`

func TestBind(t *testing.T) {
	f, err := Parse("broker.conf", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	var o options
	if err := f.Bind(&o); err != nil {
		t.Fatal(err)
	}
	want := options{inner: inner{7}, Name: "broker-a", Wait: 3 * time.Second, Keep: 72 * time.Hour, On: true, Count: 2, Lease: 1}
	if len(o.Addrs) != 2 || o.Addrs[1] != "127.0.0.2:9876" {
		t.Errorf("addresses %v", o.Addrs)
	}
	o.Addrs = nil
	if got := o; got.inner != want.inner || got.Name != want.Name || got.Wait != want.Wait || got.Keep != want.Keep || !got.On || got.Count != 2 || got.Lease != 1 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if u := f.Unused(); len(u) != 1 || u[0].Key != "aclEnable" || u[0].Line != 10 {
		t.Errorf("unused %v", u)
	}
}

func TestBadInput(t *testing.T) {
	cases := []struct{ text, want string }{
		{"just words", `a.conf:1: "just words" is not key=value`},
		{"x=1\nx=2", "a.conf:2: x is \"2\" here and \"1\" in line 1"},
		{"slaveTimeout=soon", "write a number of milliseconds"},
		{"slaveTimeout=9223372036854775807", "too long"},
		{"allAckInSyncStateSet=maybe", "write true or false"},
		{"inSyncReplicas=99999999999", "at most 32 bits"},
		{"writeLease=sometimes", "write one of required, off"},
	}
	for _, c := range cases {
		f, err := Parse("a.conf", []byte(c.text))
		if err == nil {
			err = f.Bind(&options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("a:b\n!c\n=\n\x00=\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		var o options
		if file.Bind(&o) == nil && o.Lease > 1 {
			t.Errorf("lease %d is not a mode", o.Lease)
		}
	})
}

func TestFormatReadsBack(t *testing.T) {
	o := options{inner: inner{7}, Name: "broker-a", Addrs: []string{"a:1", "b:2"}, Wait: 1500 * time.Microsecond, Keep: 48 * time.Hour, On: true, Count: -3, Lease: 1}
	text := strings.Join(Format(&o), "\n")
	f, err := Parse("a.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var back options
	if err := f.Bind(&back); err != nil {
		t.Fatal(err)
	}
	if again := strings.Join(Format(&back), "\n"); again != text || back.Wait != o.Wait || back.Keep != o.Keep || len(back.Addrs) != 2 {
		t.Errorf("read back as\n%s\nof\n%s", again, text)
	}
	if !strings.Contains(text, "slaveTimeout=1.5ms") || !strings.Contains(text, "fileReservedTime=48\n") {
		t.Errorf("durations in\n%s", text)
	}
	if n := len(f.Unused()); n != 0 {
		t.Errorf("%d keys unused", n)
	}
}

func TestListsOfStructsAreTheCallers(t *testing.T) {
	type peers struct {
		Peers []inner `key:"peers"`
		Name  string  `key:"name"`
	}
	f, err := Parse("a.conf", []byte("peers=x\nname=y"))
	if err != nil {
		t.Fatal(err)
	}
	f.Set("name", "z")
	f.Set("more", "1")
	var o peers
	if err := f.Bind(&o); err != nil || o.Name != "z" {
		t.Errorf("bound %+v, error %v", o, err)
	}
	if u := f.Unused(); len(u) != 2 || u[0].Key != "peers" || u[1].Key != "more" || !f.Has("more") || f.Has("less") {
		t.Errorf("unused %v", u)
	}
	if got := Format(&o); len(got) != 1 || got[0] != "name=z" {
		t.Errorf("formatted %v", got)
	}
}
