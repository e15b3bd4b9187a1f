package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/scenarios"
)

// A world replaces process-wide state (etcd-raft's source of randomness), so one
// process runs one world at a time. Sweeps therefore run in worker processes,
// which also contain a crash, a hang or a leak.

// job is one run to be done.
type job struct {
	drill    *scenarios.Drill
	seed     uint64
	twice    bool // run it a second time and compare hashes
	settings []scenarios.Option
}

// answerLimit is how long a worker may take for one run before it is killed.
const answerLimit = 4 * time.Minute

func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return work(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
}

// work answers each line "drill seed twice [name=value …]" with one report line.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		j, err := parseJob(lines.Text())
		if err != nil {
			return err
		}
		rep := runOnce(j)
		if j.twice {
			if why := differ(rep, runOnce(j)); why != "" {
				rep.Verdict, rep.Reason, rep.Unlike = scenarios.Broken, "two runs of one seed differ: "+why, true
			}
		}
		if err := rep.WriteJSON(out); err != nil {
			return err
		}
	}
	return lines.Err()
}

// differ says in what two reports of one seed differ, "" when in nothing but wall
// time. Equal hashes mean that the world went the same way; the judges must have
// said the same about it too.
func differ(first, second *scenarios.Report) string {
	a, b := *first, *second
	a.WallSeconds, b.WallSeconds = 0, 0
	x, err := json.Marshal(&a)
	y, err2 := json.Marshal(&b)
	switch {
	case err != nil || err2 != nil:
		return fmt.Sprintf("their reports do not encode: %v, %v", err, err2)
	case a.Hash != b.Hash:
		return fmt.Sprintf("hash %s and %s", a.Hash, b.Hash)
	case a.Verdict != b.Verdict || a.Reason != b.Reason:
		return fmt.Sprintf("%s (%s) and %s (%s)", a.Verdict, a.Reason, b.Verdict, b.Reason)
	case !bytes.Equal(x, y):
		return "the same hash and verdict, another report"
	}
	return ""
}

func (j job) String() string {
	parts := []string{j.drill.ID, strconv.FormatUint(j.seed, 10), strconv.FormatBool(j.twice)}
	for _, s := range j.settings {
		parts = append(parts, s.Name+"="+s.Value)
	}
	return strings.Join(parts, "\t")
}

func parseJob(line string) (job, error) {
	f := strings.Split(line, "\t")
	if len(f) < 3 {
		return job{}, fmt.Errorf("worker: %q is not a job", line)
	}
	d, err := scenarios.Find(f[0])
	if err != nil {
		return job{}, err
	}
	seed, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return job{}, fmt.Errorf("worker: seed %q: %w", f[1], err)
	}
	settings, err := parseSettings(f[3:])
	return job{drill: d, seed: seed, twice: f[2] == "true", settings: settings}, err
}

func parseSettings(list []string) ([]scenarios.Option, error) {
	var out []scenarios.Option
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q: write name=value, for example --set minInSyncReplicas=2", s)
		}
		out = append(out, scenarios.Option{Name: name, Value: value})
	}
	return out, nil
}

// atLeast refuses a number of the command line that is too small.
func atLeast(flag string, n, least int) error {
	if n < least {
		return fmt.Errorf("--%s %d: write %d or more", flag, n, least)
	}
	return nil
}

// checkSettings refuses, before any run, settings that a run of these drills with one
// of the first seeds could not be made with.
func checkSettings(drills []*scenarios.Drill, from, to uint64, settings []scenarios.Option) error {
	if len(settings) == 0 {
		return nil
	}
	for seed := from; seed <= to && seed-from < seedsChecked; seed++ {
		for _, d := range drills {
			if err := scenarios.Check(d, seed, settings); err != nil {
				return err
			}
		}
	}
	return nil
}

// seedsChecked is how many seeds of a sweep are looked at beforehand: each option is
// drawn from few values, which this many seeds reach.
const seedsChecked = 100

// began is where wall times count from.
var began = time.Now()

func wall() time.Duration { return time.Since(began) }

func runOnce(j job) *scenarios.Report {
	_, rep, err := scenarios.Execute(j.drill, j.seed, scenarios.RunOptions{Settings: j.settings, Wall: wall})
	if err != nil {
		return broken(j, err)
	}
	return rep
}

func broken(j job, err error) *scenarios.Report {
	return &scenarios.Report{Seed: j.seed, Drill: j.drill.ID, Host: "sim", Verdict: scenarios.Broken, Reason: err.Error(), Set: j.settings}
}

// pool runs jobs on worker processes.
type pool struct {
	workers int
	report  func(*scenarios.Report) // called from one goroutine at a time
	mu      sync.Mutex
}

// run does every job that next gives, until next reports false or ctx ends. Runs that
// are then under way are given up and not reported.
func (p *pool) run(ctx context.Context, next func() (job, bool)) error {
	var take sync.Mutex
	errs := make([]error, p.workers)
	var wg sync.WaitGroup
	for i := range p.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = p.serve(ctx, func() (job, bool) {
				take.Lock()
				defer take.Unlock()
				return next()
			})
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (p *pool) serve(ctx context.Context, next func() (job, bool)) error {
	var w *worker
	defer func() { w.close() }()
	for {
		j, ok := next()
		if !ok || ctx.Err() != nil {
			return nil
		}
		if w == nil {
			var err error
			if w, err = startWorker(); err != nil {
				return err
			}
		}
		rep, err := w.do(ctx, j)
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			w.close()
			w = nil
			rep = broken(j, err)
		}
		p.mu.Lock()
		p.report(rep)
		p.mu.Unlock()
	}
}

// worker is one child process.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
}

func startWorker() (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	w := &worker{cmd: exec.Command(self, "worker"), stderr: &tail{}}
	w.cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	w.cmd.Stderr = w.stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for this process
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("worker pipe: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("worker pipe: %w", err)
	}
	w.out = bufio.NewReaderSize(out, 1<<20)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return w, nil
}

// do sends one job and reads its report; a worker that dies or does not answer
// in time is an error, and so is one that is given up because ctx ended.
func (w *worker) do(ctx context.Context, j job) (*scenarios.Report, error) {
	if _, err := io.WriteString(w.in, j.String()+"\n"); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	hung := time.AfterFunc(answerLimit, func() { w.cmd.Process.Kill() })
	defer hung.Stop()
	defer context.AfterFunc(ctx, func() { w.cmd.Process.Kill() })()
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		w.cmd.Wait() // its exit code is in the text below
		return nil, fmt.Errorf("the worker process ended during the run (or took over %v): %s", answerLimit, w.stderr.text())
	}
	rep := new(scenarios.Report)
	if err := json.Unmarshal(line, rep); err != nil {
		return nil, fmt.Errorf("worker answered %.80q: %w", line, err)
	}
	return rep, nil
}

func (w *worker) close() {
	if w == nil {
		return
	}
	w.in.Close()         // the worker ends at the end of its input
	w.cmd.Process.Kill() // and at once if it is stuck
	w.cmd.Wait()
}

// tail keeps the end of what a worker wrote to stderr.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 4096

// Write keeps the last bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.b) < tailBytes { // the first lines of a panic say most
		t.b = append(t.b, p[:min(len(p), tailBytes-len(t.b))]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
