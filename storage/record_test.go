package storage

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"lockstep/internal/ha"
)

// goldenV4 is a version 1 record with IPv4 hosts, written by hand from the
// layout of HA contract 5.2; checksums were computed with zlib.
const goldenV4 = "" +
	"00000089" + // total size 137
	"daa320a7" + // magic, version 1
	"0d4a1185" + // CRC-32 of the body
	"00000003" + // queue id
	"00000007" + // flag
	"0000000000000029" + // queue offset 41
	"0000000000001000" + // physical offset 4096
	"00000000" + // sysFlag
	"00000190aabbccdd" + // born time
	"7f000001" + "00003039" + // born host 127.0.0.1:12345
	"00000190aabbccee" + // store time
	"0a000002" + "00002a9f" + // store host 10.0.0.2:10911
	"00000002" + // reconsume times
	"0000000000000000" + // prepared transaction offset
	"0000000b" + "68656c6c6f20776f726c64" + // body: hello world
	"05" + "546f706963" + // topic: Topic
	"001e" + "5441475301" + "5461674102" + // properties: TAGS=TagA
	"5f5f43524333322301" + "36363539383339343030" + "02" // __CRC32#=6659839400: 0049389566 backwards

// goldenV6 is a version 2 record with IPv6 hosts and a topic of 132 bytes.
var goldenV6 = "" +
	"00000119" + "daa320ab" + "3610a686" + "00000000" + "00000000" +
	"0000000000000005" + "0000000100000000" + "00000031" + "00000000000003e8" +
	"20010db8000000000000000000000001" + "00000001" +
	"00000000000007d0" +
	"20010db8000000000000000000000002" + "00002a9f" +
	"00000000" + "0000000000000009" +
	"00000005" + "68656c6c6f" +
	"0084" + "25524554525925" + strings.Repeat("67", 125) +
	"001c" + "5441475301" + "c3a4" + "02" + // the separator that the text lacked
	"5f5f43524333322301" + "DIGITS" + "02"

func mustHost(t tester, s string) Host {
	t.Helper()
	h, err := ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func unhex(t tester, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func draftV4(t tester) *Draft {
	return &Draft{
		Topic: "Topic", QueueID: 3, Flag: 7, BornMillis: 0x190aabbccdd, BornHost: mustHost(t, "127.0.0.1:12345"),
		StoreHost: mustHost(t, "10.0.0.2:10911"), ReconsumeTimes: 2, Body: []byte("hello world"),
		Properties: AppendProperty(nil, PropTags, "TagA"), PropCRC: true,
	}
}

func draftV6(t tester) *Draft {
	return &Draft{
		Topic: "%RETRY%" + strings.Repeat("g", 125), SysFlag: FlagCompressed, BornMillis: 1000,
		BornHost: mustHost(t, "[2001:db8::1]:1"), StoreHost: mustHost(t, "[2001:db8::2]:10911"),
		PreparedOffset: 9, Body: []byte("hello"), Properties: []byte("TAGS\x01ä"), PropCRC: true,
	}
}

func place(t tester, d *Draft, queueOffset int64, at ha.LogOffset, millis int64) []byte {
	t.Helper()
	p, err := PrepareRecord(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, p.Size())
	p.Place(b, queueOffset, at, millis)
	return b
}

func TestGoldenRecords(t *testing.T) {
	for _, tc := range []struct {
		name   string
		draft  *Draft
		queue  int64
		at     ha.LogOffset
		millis int64
		want   string
	}{
		{"v1 IPv4", draftV4(t), 41, 4096, 0x190aabbccee, goldenV4},
		{"v2 IPv6", draftV6(t), 5, 1 << 32, 2000, strings.Replace(goldenV6, "DIGITS", hex.EncodeToString([]byte("1054096351")), 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex(t, tc.want)
			got := place(t, tc.draft, tc.queue, tc.at, tc.millis)
			if !bytes.Equal(got, want) {
				t.Fatalf("stored record\n got %x\nwant %x", got, want)
			}
			f := Next(want, tc.at, Check{PropCRC: PropCRCRequired})
			if f.Kind != FoundRecord || f.Size != len(want) {
				t.Fatalf("Next: kind %d size %d %s", f.Kind, f.Size, f.Reason)
			}
			r := f.Record
			if string(r.Topic) != tc.draft.Topic || !bytes.Equal(r.Body, tc.draft.Body) || r.QueueOffset != tc.queue ||
				r.Physical != tc.at || r.StoreMillis != tc.millis || r.BornMillis != tc.draft.BornMillis ||
				r.BornHost != tc.draft.BornHost || r.StoreHost != tc.draft.StoreHost || r.Flag != tc.draft.Flag ||
				r.QueueID != tc.draft.QueueID || r.ReconsumeTimes != tc.draft.ReconsumeTimes || r.PreparedOffset != tc.draft.PreparedOffset {
				t.Fatalf("decoded %+v", r)
			}
		})
	}
}

func TestMessageID(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.2:10911":      "0A00000200002A9F0000000000001000",
		"[2001:db8::2]:10911": "20010DB800000000000000000000000200002A9F0000000000001000",
	} {
		id := MessageID(mustHost(t, host), 4096)
		if id != want {
			t.Errorf("MessageID(%s) = %s, want %s", host, id, want)
		}
		h, off, err := ParseMessageID(strings.ToLower(id))
		if err != nil || h.String() != host || off != 4096 {
			t.Errorf("ParseMessageID(%s) = %v %d %v", id, h, off, err)
		}
	}
	for _, bad := range []string{"", "0A", "0A00000200002A9FFFFFFFFFFFFFFFFF", strings.Repeat("z", 32)} {
		if _, _, err := ParseMessageID(bad); err == nil {
			t.Errorf("ParseMessageID(%q) accepted", bad)
		}
	}
}

// TestTagHash compares with values of Java's String.hashCode.
func TestTagHash(t *testing.T) {
	for tag, want := range map[string]int64{
		"": 0, "a": 97, "TagA": 2598919, "hello": 99162322, "ä": 228,
		"polygenelubricants": -2147483648, // the classic string with the smallest hash
		"😀":                  1772899,     // surrogates d83d de00
	} {
		if got := TagHash([]byte(tag)); got != want {
			t.Errorf("TagHash(%q) = %d, want %d", tag, got, want)
		}
	}
}

func TestProperties(t *testing.T) {
	text := []byte("A\x011\x02\x02x\x02ab\x01\x02KEYS\x01k1 k2\x02A\x012\x02\x01v\x02B\x01last")
	for name, want := range map[string]string{"A": "2", "KEYS": "k1 k2", "B": "last"} {
		if v, ok := Property(text, name); !ok || string(v) != want {
			t.Errorf("Property(%s) = %q %v, want %q", name, v, ok, want)
		}
	}
	for _, absent := range []string{"", "x", "ab", "C"} {
		if v, ok := Property(text, absent); ok {
			t.Errorf("Property(%q) = %q, want none", absent, v)
		}
	}
	if ValidProperty("a\x01", "b") || ValidProperty("a", "") || ValidProperty("a", "\xff") || !ValidProperty("a", "ä") {
		t.Error("ValidProperty is wrong about separators, emptiness or UTF-8")
	}
}

// TestEveryByteIsCovered flips each bit of a stored record: with a property CRC
// none of them may go unnoticed.
func TestEveryByteIsCovered(t *testing.T) {
	good := unhex(t, goldenV4)
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			f := Next(b, 4096, Check{PropCRC: PropCRCRequired})
			if f.Kind == FoundRecord {
				t.Fatalf("byte %d bit %d: accepted", i, bit)
			}
		}
	}
}

func TestNext(t *testing.T) {
	good := unhex(t, goldenV4)
	plain := draftV4(t)
	plain.PropCRC = false
	noCRC := place(t, plain, 41, 4096, 1)
	blank := make([]byte, 4096-200)
	Blank(blank)
	set := func(b []byte, at int, v uint32) []byte {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint32(b[at:], v)
		return b
	}
	seg := Check{Segment: 4096, PropCRC: PropCRCRequired}
	for _, tc := range []struct {
		name   string
		b      []byte
		at     ha.LogOffset
		check  Check
		kind   FoundKind
		size   int
		reason string
	}{
		{"whole", good, 4096, seg, FoundRecord, 137, ""},
		{"more behind it", append(bytes.Clone(good), 1, 2), 4096, seg, FoundRecord, 137, ""},
		{"no header yet", good[:7], 4096, seg, FoundMore, 8, ""},
		{"one byte short", good[:136], 4096, seg, FoundMore, 137, ""},
		{"nothing", nil, 0, seg, FoundMore, 8, ""},
		{"unwritten", make([]byte, 8), 0, seg, FoundUnwritten, 0, ""},
		{"blank", blank, 200, seg, FoundBlank, 3896, ""},
		{"blank, header only", blank[:8], 200, seg, FoundBlank, 3896, ""},
		{"blank not to the end", blank, 300, seg, FoundCorrupt, 0, "blank record does not end at the segment's end"},
		{"tiny blank", set(blank, 0, 4), 200, Check{}, FoundCorrupt, 0, "blank record shorter than its header"},
		{"other position", good, 8192, seg, FoundCorrupt, 0, "physical offset field differs from the position"},
		{"over the end", good, 8192 - 136, seg, FoundCorrupt, 0, "record crosses the segment's end"},
		{"magic", set(good, 4, 0xDAA320A8), 4096, seg, FoundCorrupt, 0, "unknown magic code"},
		{"tiny", set(good, 0, 90), 4096, seg, FoundCorrupt, 0, "size below the smallest record"},
		{"huge", set(good, 0, 1<<31), 4096, Check{}, FoundCorrupt, 0, "size above the largest record"},
		{"body", set(good, 85, 0), 4096, seg, FoundCorrupt, 0, "body runs over the record's end"},
		{"no property CRC required", noCRC, 4096, Check{}, FoundRecord, 117, ""},
		{"property CRC missing", noCRC, 4096, seg, FoundCorrupt, 0, "property checksum is missing"},
	} {
		f := Next(tc.b, tc.at, tc.check)
		if f.Kind != tc.kind || f.Size != tc.size {
			t.Errorf("%s: kind %d size %d (%s), want kind %d size %d", tc.name, f.Kind, f.Size, f.Reason, tc.kind, tc.size)
		}
		if tc.reason != "" && tc.name != "body" && f.Reason != tc.reason {
			t.Errorf("%s: reason %q, want %q", tc.name, f.Reason, tc.reason)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Draft)
		want string
	}{
		{"no topic", func(d *Draft) { d.Topic = "" }, "want 1 to 255"},
		{"long topic", func(d *Draft) { d.Topic = strings.Repeat("x", 256) }, "want 1 to 255"},
		{"queue", func(d *Draft) { d.QueueID = -1 }, "negative"},
		{"properties", func(d *Draft) { d.Properties = make([]byte, MaxProperties-crcTailBytes) }, "exceed the limit of 32767"},
		{"size", func(d *Draft) { d.MaxRecord = 136 }, "maxMessageSize"},
	} {
		d := draftV4(t)
		tc.edit(d)
		if _, err := PrepareRecord(nil, d); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestNeedsBlank(t *testing.T) {
	for _, tc := range []struct {
		off   ha.LogOffset
		size  int
		rest  int
		blank bool
	}{{0, 4088, 4096, false}, {0, 4089, 4096, true}, {4096 + 4000, 88, 96, false}, {4096 + 4000, 89, 96, true}} {
		if rest, blank := NeedsBlank(tc.off, tc.size, 4096); rest != tc.rest || blank != tc.blank {
			t.Errorf("NeedsBlank(%d, %d) = %d %v", tc.off, tc.size, rest, blank)
		}
	}
}

func TestPlaceDoesNotAllocate(t *testing.T) {
	p, err := PrepareRecord(nil, draftV4(t))
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, p.Size())
	if n := testing.AllocsPerRun(100, func() { p.Place(dst, 1, 2, 3) }); n != 0 {
		t.Errorf("Place allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { Next(dst, 2, Check{}) }); n != 0 {
		t.Errorf("Next allocates %v times", n)
	}
}

func TestEntryOf(t *testing.T) {
	d := draftV4(t)
	d.Topic, d.Properties = ScheduleTopic, AppendProperty(nil, PropDelay, "3")
	b := place(t, d, 0, 0, 1_000_000)
	r, _ := DecodeRecord(b)
	if e, ok := EntryOf(&r); !ok || e.Tag != 1_010_000 {
		t.Errorf("delay level 3: %+v %v, want a delivery time of 1010000", e, ok)
	}
	d = draftV4(t)
	d.SysFlag = FlagPrepared
	r, _ = DecodeRecord(place(t, d, 0, 0, 1))
	if _, ok := EntryOf(&r); ok {
		t.Error("a prepared transaction message got a queue entry")
	}
}
