package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/scenarios"
	"lockstep/scenarios/mutants"
)

func mutantsCommand() *cobra.Command {
	var list bool
	var share string
	var jobs, seeds int
	c := &cobra.Command{
		Use:   "mutants [NAME…]",
		Short: "Build wrong variants of the product and check that the drills kill each",
		Long: `mutants builds the drill binary once for each wrong variant (go build -overlay) and sweeps
the drills that should notice, until the first failure. It prints the seeds it took and the
judge that found it. A variant that survives fails the command. Needs the repository and Go.`,
		Example: "  drill mutants --list\n  drill mutants\n  drill mutants --share 3/8",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return mutantNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ms, err := chosenMutants(args, share)
			if err != nil {
				return err
			}
			if list {
				for _, m := range ms {
					fmt.Fprintf(cmd.OutOrStdout(), "%-40s %-22s %s\n", m.Name, m.Rule, m.Why)
				}
				return nil
			}
			if err := errors.Join(atLeast("jobs", jobs, 1), atLeast("seeds", seeds, 0)); err != nil {
				return err
			}
			return killAll(cmd, ms, sweepLimits{jobs, seeds})
		},
	}
	c.Flags().BoolVar(&list, "list", false, "print the mutants and what each removes")
	c.Flags().IntVar(&jobs, "jobs", runtime.NumCPU(), "worker processes of each sweep")
	c.Flags().IntVar(&seeds, "seeds", 0, "at most this many seeds a drill; 0 takes the mutant's own number")
	c.Flags().StringVar(&share, "share", "", "I/N: only the I-th of N parts")
	return c
}

func mutantNames() []string {
	var out []string
	for _, m := range mutants.All() {
		out = append(out, m.Name)
	}
	return out
}

func chosenMutants(names []string, share string) ([]mutants.Mutant, error) {
	part, parts, err := parseShard(share)
	if err != nil {
		return nil, err
	}
	var out []mutants.Mutant
	for i, m := range mutants.All() {
		if len(names) == 0 && uint64(i)%parts == part {
			out = append(out, m)
		}
	}
	for _, n := range names {
		m, err := mutants.Find(n)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func killAll(cmd *cobra.Command, ms []mutants.Mutant, limits sweepLimits) error {
	root, err := repository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockstep-mutants-")
	if err != nil {
		return fmt.Errorf("scratch directory: %w", err)
	}
	defer os.RemoveAll(dir)
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%-40s %-18s %6s  %s\n", "mutant", "killed by", "seeds", "finding")
	survived := 0
	for _, m := range ms {
		k, err := kill(root, dir, m, limits)
		switch {
		case err != nil:
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		case k.report == nil:
			survived++
			fmt.Fprintf(out, "%-40s %-18s %6d\n", m.Name, "SURVIVED", k.seeds)
		default:
			fmt.Fprintf(out, "%-40s %-18s %6d  %.110s\n", m.Name, k.report.Drill, k.seeds, k.report.Reason)
		}
	}
	fmt.Fprintf(out, "\n%d mutants, %d survived\n", len(ms), survived)
	if survived > 0 || len(ms) == 0 {
		return errFailed
	}
	return nil
}

// repository is the root of the module the command runs in.
func repository() (string, error) {
	text, err := exec.Command("go", "env", "GOMOD").Output()
	mod := strings.TrimSpace(string(text))
	if err != nil || mod == "" || mod == os.DevNull {
		return "", errors.New("mutants are built from source: run this inside the repository, with go installed")
	}
	return filepath.Dir(mod), nil
}

// killed is how a mutant ended; report is nil when it survived.
type killed struct {
	seeds  int
	report *scenarios.Report
}

// sweepLimits bound the sweep of one mutant.
type sweepLimits struct {
	jobs  int
	seeds int // 0: the mutant's own
}

func kill(root, dir string, m mutants.Mutant, limits sweepLimits) (killed, error) {
	texts, err := m.Apply(root)
	if err != nil {
		return killed{}, err
	}
	bin, err := build(root, dir, m, texts)
	if err != nil {
		return killed{}, err
	}
	defer os.Remove(bin)
	total, seeds := 0, m.Seeds
	if limits.seeds > 0 {
		seeds = limits.seeds
	}
	for _, d := range m.Drills {
		k, err := sweepMutant(bin, d, limits.jobs, seeds)
		if err != nil {
			return killed{}, err
		}
		total += k.seeds
		if k.report != nil {
			return killed{total, k.report}, nil
		}
	}
	return killed{seeds: total}, nil
}

// build compiles the drill binary with the mutant's files laid over the originals.
func build(root, dir string, m mutants.Mutant, texts map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range texts {
		file := filepath.Join(dir, m.Name+"."+strings.ReplaceAll(path, "/", "."))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(path))] = file
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	over := filepath.Join(dir, m.Name+".json")
	if err := os.WriteFile(over, overlay, 0o644); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, m.Name)
	c := exec.Command("go", "build", "-overlay", over, "-o", bin, "./cmd/drill")
	c.Dir = root
	if msg, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, msg)
	}
	return bin, nil
}

// sweepMutant runs seeds until the first failure that is a breach: a quiet or
// stale run kills nothing.
func sweepMutant(bin, drill string, jobs, seeds int) (killed, error) {
	if _, err := scenarios.Find(drill); err != nil {
		return killed{}, err // a drill that does not exist kills nothing
	}
	c := exec.Command(bin, "sweep", "--first", "--twice", "0", "--drill", drill, "--jobs", strconv.Itoa(jobs), "--seeds", fmt.Sprintf("1..%d", seeds), "--json", bin+".jsonl")
	c.Stdout, c.Stderr = io.Discard, io.Discard
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return killed{}, err
	}
	f, err := os.Open(bin + ".jsonl")
	if err != nil {
		return killed{}, err
	}
	defer f.Close()
	k := killed{}
	for dec := json.NewDecoder(f); ; {
		r := new(scenarios.Report)
		if err := dec.Decode(r); err != nil {
			if errors.Is(err, io.EOF) {
				return k, nil
			}
			return killed{}, err
		}
		k.seeds++
		if r.Breach() {
			k.report = r
			return k, nil
		}
	}
}
