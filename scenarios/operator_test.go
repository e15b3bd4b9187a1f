package scenarios

import (
	"strings"
	"testing"

	"lockstep/internal/prng"
	"lockstep/sim"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// broken refuses every operation: a disk on which a fault is under way.
type broken struct{}

func (broken) Fault(vfs.Op) vfs.Fault { return vfs.Fault{Err: vfs.ErrIO} }

// TestOperatorIsNotStruck: what an operator reads from a disk that he took out does not
// depend on faults, nor on a crash that waits for the node's next operation.
func TestOperatorIsNotStruck(t *testing.T) {
	disk := vfs.NewMem(vfs.MemOptions{})
	for _, name := range []string{storage.NameIdentity, "boot"} {
		if err := vfs.WriteAtomic(disk, name, []byte("I am "+name)); err != nil {
			t.Fatal(err)
		}
	}
	image := disk.Snapshot()
	disk.SetFaults(broken{})
	disk.SetReadOnly(true)
	disk.StopAfter(disk.OpCount())
	img, err := emptyBut(disk, storage.NameIdentity)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = withFile(img, disk, "boot"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*vfs.Image{image, img} {
		got := vfs.NewMem(vfs.MemOptions{})
		got.Restore(x)
		if raw, err := vfs.ReadFile(got, storage.NameIdentity); err != nil || string(raw) != "I am "+storage.NameIdentity {
			t.Errorf("%q, %v", raw, err)
		}
	}
	if _, err := emptyBut(vfs.NewMem(vfs.MemOptions{}), storage.NameIdentity); err == nil {
		t.Error("an empty disk has an identity")
	}
}

// staged runs a short world with one stage and returns the run.
func staged(t *testing.T, do func(r *Run, f *sim.Fault)) *Run {
	t.Helper()
	d := &Drill{ID: "T", Name: "staged", Chaos: 2e9, Down: true,
		Pin:    func(_ *prng.Source, s *Setup) { *s = StandardSetup(); s.Groups, s.Rate = 1, 20 },
		Begin:  func(r *Run) { r.stage("it", func(f *sim.Fault) { do(r, f) }) },
		Faults: func(*Cast) []*sim.Fault { return []*sim.Fault{Stage("it", At(1e9), 0, 0)} }}
	r, _, err := Execute(d, 7, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stale are the findings that call the run's plan stale.
func stale(r *Run) (out []string) {
	for _, f := range r.Findings {
		if f.Name == "stale" {
			out = append(out, f.Text)
		}
	}
	return out
}

// TestStepsThatFindNothing: a step that cannot be done is either defined, or makes the
// plan stale and says why; it never ends the process that runs the drill.
func TestStepsThatFindNothing(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *Run, f *sim.Fault)
		want string
	}{
		"an identity there is": {func(r *Run, _ *sim.Fault) { r.rewipe("a3", 1e8) }, ""},
		"an identity there is not": {func(r *Run, _ *sim.Fault) {
			r.replaceDisk("a3")
			r.rewipe("a3", 1e8)
		}, "keep the identity of a3"},
		"nothing to keep": {func(r *Run, _ *sim.Fault) {
			r.replaceDisk("a3")
			r.reinstall("a3", 1e8)
		}, ""},
		"a role nobody plays":    {func(r *Run, _ *sim.Fault) { r.rewipe(r.aim(r.one("@slave/a/7")), 1e8) }, "keep the identity of "},
		"a crash of nobody":      {func(r *Run, _ *sim.Fault) { r.strike(sim.CrashExit, 1e8, r.one("@slave/a/7")) }, "crash"},
		"a fault that is spared": {func(r *Run, _ *sim.Fault) { r.World.SetEra(&sim.Era{}); r.replaceDisk("a3") }, "outside the fault budget"},
	} {
		t.Run(name, func(t *testing.T) {
			got := stale(staged(t, c.do))
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || !strings.Contains(got[0], c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestMasterWithoutANode: judges look at a broker whose disk was replaced as at one that
// is down.
func TestMasterWithoutANode(t *testing.T) {
	var why, down string
	r := staged(t, func(r *Run, _ *sim.Fault) {
		master := r.one("@master/a")
		r.replaceDisk(master)
		if node := r.Truth.Node(GroupName(0), 1); node != "" && master == "a1" {
			t.Errorf("broker 1 is still at %s", node)
		}
		why, down = r.unsettledGroup(0), r.whoIsDown()
		if d := r.diverged(0); d != "" {
			t.Errorf("nobody leads, and yet %s", d)
		}
	})
	if got := stale(r); len(got) > 0 || why == "" || !strings.Contains(down, ": down") {
		t.Errorf("stale %q, unsettled %q, down %q", got, why, down)
	}
}
