package crashenum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"lockstep/storage/vfs"
)

// run enumerates and fails the test on any error.
func run(t *testing.T, cfg Config) Report {
	t.Helper()
	rep, err := Run(cfg)
	if err != nil {
		t.Fatalf("%v (%v)", err, rep)
	}
	return rep
}

// wantFailure enumerates and demands that a state is found wrong.
func wantFailure(t *testing.T, cfg Config, text string) *Failure {
	t.Helper()
	rep, err := Run(cfg)
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("no state was found wrong: %v, %v", rep, err)
	}
	if !strings.Contains(f.Error(), text) {
		t.Fatalf("failure %q does not say %q", f, text)
	}
	return f
}

func write(fsys vfs.FS, name string, off int64, data string, sync bool) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(data), off); err != nil {
		return err
	}
	if sync {
		return f.Sync()
	}
	return nil
}

func synced(name, data string) func(fsys vfs.FS) error {
	return func(fsys vfs.FS) error {
		if err := write(fsys, name, 0, data, true); err != nil {
			return err
		}
		return fsys.SyncDir(".")
	}
}

func anything(State) error { return nil }

func sectors(n int) string { return strings.Repeat("x", n*vfs.SectorSize) }

// TestStateCounts pins the number of states of programs small enough to count by hand.
// Every boundary has one process exit and at least one power loss.
func TestStateCounts(t *testing.T) {
	for _, c := range []struct {
		name    string
		setup   func(fsys vfs.FS) error
		program func(fsys vfs.FS) error
		torn    bool
		want    []int // power-loss states by boundary
	}{
		{
			name:    "one appended sector: nothing, zeros, bytes",
			setup:   synced("a", ""),
			program: func(f vfs.FS) error { return write(f, "a", 0, sectors(1), true) },
			want:    []int{1, 3, 1},
		},
		{
			name:    "two overwritten sectors: any subset",
			setup:   synced("a", strings.Repeat("o", 2*vfs.SectorSize)),
			program: func(f vfs.FS) error { return write(f, "a", 0, sectors(2), true) },
			want:    []int{1, 4, 1},
		},
		{
			name:    "overwritten sectors torn: kept, lost, half, garbled",
			setup:   synced("a", strings.Repeat("o", 2*vfs.SectorSize)),
			program: func(f vfs.FS) error { return write(f, "a", 0, sectors(2), true) },
			torn:    true,
			want:    []int{1, 16, 1},
		},
		{
			// size 0; size 512 with its sector or not; size 1000 with any of two.
			name:    "append over a sector boundary",
			setup:   synced("a", ""),
			program: func(f vfs.FS) error { return write(f, "a", 0, strings.Repeat("x", 1000), false) },
			want:    []int{1, 1 + 2 + 4},
		},
		{
			name:  "allocation is whole or absent",
			setup: synced("a", ""),
			program: func(f vfs.FS) error {
				h, err := f.Open("a")
				if err != nil {
					return err
				}
				return h.Allocate(1 << 20)
			},
			want: []int{1, 2},
		},
		{
			// Truncated or not, times nothing else.
			name:  "truncate",
			setup: synced("a", sectors(3)),
			program: func(f vfs.FS) error {
				h, err := f.Open("a")
				if err != nil {
					return err
				}
				if err := h.Truncate(vfs.SectorSize); err != nil {
					return err
				}
				return h.Sync()
			},
			// Not truncated: the cut tail of the page may have been zeroed in each of
			// two sectors.
			want: []int{1, 1 + 4, 1},
		},
		{
			// create, create, create: any subset; syncdir: all.
			name: "three names",
			program: func(f vfs.FS) error {
				for _, n := range []string{"a", "b", "c"} {
					if _, err := f.Create(n); err != nil {
						return err
					}
				}
				return f.SyncDir(".")
			},
			want: []int{1, 2, 4, 8, 1},
		},
		{
			// Changes of one file keep their order: none, a, b.
			name: "create then rename",
			program: func(f vfs.FS) error {
				if _, err := f.Create("a"); err != nil {
					return err
				}
				return f.Rename("a", "b")
			},
			want: []int{1, 2, 3},
		},
		{
			// A name below a name that is lost is lost too, and SyncDir of a directory
			// does not make its own name durable.
			name: "directory and file",
			program: func(f vfs.FS) error {
				if err := f.MkdirAll("d"); err != nil {
					return err
				}
				if _, err := f.Create("d/a"); err != nil {
					return err
				}
				return f.SyncDir("d")
			},
			want: []int{1, 2, 3, 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int
			rep := run(t, Config{Setup: c.setup, Program: c.program, Torn: c.torn, Check: func(s State) error {
				for int(s.Step) >= len(got) {
					got = append(got, 0)
				}
				if s.Kind == vfs.PowerLoss {
					got[s.Step]++
				}
				return nil
			}})
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("power-loss states by boundary: %v, want %v", got, c.want)
			}
			sum := len(c.want) // process exits
			for _, n := range c.want {
				sum += n
			}
			if rep.Points != len(c.want) || rep.States != sum || !rep.Exhaustive() {
				t.Errorf("report %v, want %d boundaries and %d states", rep, len(c.want), sum)
			}
		})
	}
}

// replaceCheck demands old or new content, new only once the program ended.
func replaceCheck(old, want string) func(s State) error {
	return func(s State) error {
		got, err := vfs.ReadFile(s.FS, "f")
		if err != nil {
			return err
		}
		if string(got) == want || string(got) == old && !s.Done {
			return nil
		}
		return fmt.Errorf("f holds %.20q after the program ended: %v", got, s.Done)
	}
}

func TestWriteAtomic(t *testing.T) {
	old, want := strings.Repeat("o", 700), strings.Repeat("n", 1700)
	for _, setup := range []func(fsys vfs.FS) error{
		synced("f", old),
		func(fsys vfs.FS) error { // left-overs of an interrupted one, synced or not
			if err := synced("f.tmp", sectors(2))(fsys); err != nil {
				return err
			}
			return synced("f", old)(fsys)
		},
		func(fsys vfs.FS) error {
			if err := synced("f", old)(fsys); err != nil {
				return err
			}
			return write(fsys, "f.tmp", 0, sectors(3), false)
		},
	} {
		for _, torn := range []bool{false, true} {
			rep := run(t, Config{
				Setup:   setup,
				Program: func(fsys vfs.FS) error { return vfs.WriteAtomic(fsys, "f", []byte(want)) },
				Check:   replaceCheck(old, want),
				Torn:    torn,
			})
			if rep.Points != 6 || !rep.Exhaustive() {
				t.Fatalf("%v: create, write, sync, rename, syncdir have 6 boundaries", rep)
			}
		}
	}
}

// TestAtomicThenRecovered crashes again while a recovered process replaces the file.
func TestAtomicThenRecovered(t *testing.T) {
	states := 0
	run(t, Config{
		Setup:   synced("f", "v1"),
		Program: func(fsys vfs.FS) error { return vfs.WriteAtomic(fsys, "f", []byte("v2")) },
		Check: func(s State) error {
			rep, err := Run(Config{
				Start:   s.FS,
				Program: func(fsys vfs.FS) error { return vfs.WriteAtomic(fsys, "f", []byte("v3")) },
				Check: func(s State) error {
					got, err := vfs.ReadFile(s.FS, "f")
					if err == nil && string(got) != "v3" && (s.Done || string(got) != "v1" && string(got) != "v2") {
						err = fmt.Errorf("holds %q", got)
					}
					return err
				},
			})
			states += rep.States
			return err
		},
	})
	if states < 100 {
		t.Fatalf("only %d states", states)
	}
}

// TestBrokenReplace leaves out one step of WriteAtomic at a time; each must be caught.
func TestBrokenReplace(t *testing.T) {
	for _, c := range []struct{ skip, text string }{
		{"sync", "f holds"},
		{"syncdir", "ended: true"},
		{"aside", "f holds"},
	} {
		t.Run(c.skip, func(t *testing.T) {
			wantFailure(t, Config{
				Setup: synced("f", "old"),
				Program: func(fsys vfs.FS) error {
					name := "f.tmp"
					if c.skip == "aside" {
						name = "f"
					}
					if err := write(fsys, name, 0, "new content", c.skip != "sync"); err != nil {
						return err
					}
					if name != "f" {
						if err := fsys.Rename(name, "f"); err != nil {
							return err
						}
					}
					if c.skip == "syncdir" {
						return nil
					}
					return fsys.SyncDir(".")
				},
				Check: replaceCheck("old", "new content"),
			}, c.text)
		})
	}
}

// appendLog appends numbered 200-byte records, syncing after each, and counts what it
// acknowledged.
func appendLog(acked *int, sync bool) func(fsys vfs.FS) error {
	return func(fsys vfs.FS) error {
		*acked = 0
		f, err := fsys.Open("log")
		if err != nil {
			return err
		}
		for i := range 6 {
			rec := bytes.Repeat([]byte{byte(i + 1)}, 200)
			if _, err := f.WriteAt(rec, int64(i*200)); err != nil {
				return err
			}
			if sync {
				if err := f.Sync(); err != nil {
					return err
				}
			}
			*acked++
		}
		return nil
	}
}

func checkLog(acked *int) func(s State) error {
	return func(s State) error {
		data, err := vfs.ReadFile(s.FS, "log")
		if err != nil {
			return err
		}
		for i := range *acked {
			if len(data) < (i+1)*200 || !bytes.Equal(data[i*200:(i+1)*200], bytes.Repeat([]byte{byte(i + 1)}, 200)) {
				return fmt.Errorf("acknowledged record %d is lost or damaged", i)
			}
		}
		return nil
	}
}

// TestAppendAndFlush: a torn write of one record never damages a synced neighbour in the
// same sector (rule P5e), and an acknowledgement without a sync is caught.
func TestAppendAndFlush(t *testing.T) {
	var acked int
	rep := run(t, Config{Setup: synced("log", ""), Program: appendLog(&acked, true), Check: checkLog(&acked), Torn: true})
	if !rep.Exhaustive() || rep.States < 50 {
		t.Fatalf("%v", rep)
	}
	f := wantFailure(t, Config{Setup: synced("log", ""), Program: appendLog(&acked, false), Check: checkLog(&acked)},
		"acknowledged record")
	if f.Kind != vfs.PowerLoss {
		t.Fatalf("a process exit lost something: %v", f)
	}
}

// TestSample: a large write has too many states; the report says so and the sample is the same
// each time and holds the extremes.
func TestSample(t *testing.T) {
	enumerate := func(seed uint64) (Report, map[uint64]bool, bool, bool) {
		ids, none, all := map[uint64]bool{}, false, false
		rep := run(t, Config{
			Setup:    synced("a", ""),
			Program:  func(f vfs.FS) error { return write(f, "a", 0, sectors(512), false) },
			PerPoint: 200, Seed: seed,
			Check: func(s State) error {
				ids[s.FS.Fingerprint()] = true
				b, err := vfs.ReadFile(s.FS, "a")
				none = none || len(b) == 0
				all = all || string(b) == sectors(512)
				return err
			},
		})
		return rep, ids, none, all
	}
	rep, ids, none, all := enumerate(1)
	if rep.Exhaustive() || !reflect.DeepEqual(rep.Sampled, []int{1}) || rep.States < 150 || rep.States > 210 {
		t.Fatalf("%v", rep)
	}
	if !none || !all {
		t.Fatalf("extremes left out: nothing %v, everything %v", none, all)
	}
	if _, again, _, _ := enumerate(1); !reflect.DeepEqual(ids, again) {
		t.Fatal("one seed gave two samples")
	}
	if _, other, _, _ := enumerate(2); reflect.DeepEqual(ids, other) {
		t.Fatal("two seeds gave one sample")
	}
	if !strings.Contains(rep.String(), "sample") {
		t.Fatalf("report hides the sample: %v", rep)
	}
}

func TestBadPrograms(t *testing.T) {
	if _, err := Run(Config{Check: anything}); err == nil {
		t.Fatal("no program")
	}
	wrong := errors.New("wrong")
	if _, err := Run(Config{Program: func(vfs.FS) error { return wrong }, Check: anything}); !errors.Is(err, wrong) {
		t.Fatalf("failing program: %v", err)
	}
	if _, err := Run(Config{Setup: func(vfs.FS) error { return wrong }, Program: func(vfs.FS) error { return nil },
		Check: anything}); !errors.Is(err, wrong) {
		t.Fatalf("failing setup: %v", err)
	}
	n := 0
	endless := func(fsys vfs.FS) error {
		for {
			n++
			if err := fsys.MkdirAll(fmt.Sprintf("d%d", n%2)); err != nil {
				return io.ErrUnexpectedEOF
			}
		}
	}
	stop := errors.New("enough")
	if _, err := Run(Config{Program: endless, Check: func(s State) error {
		if s.Step == 20 {
			return stop
		}
		return nil
	}}); !errors.Is(err, stop) {
		t.Fatalf("endless program: %v", err)
	}
}
