package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticks of the kernel's processor accounting a second (USER_HZ, fixed on Linux).
const ticks = 100

// processorTime is what a process has used, in user and system mode.
func processorTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in brackets and may hold anything.
	rest := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(rest) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(rest))
	}
	var sum int64
	for _, f := range rest[11:13] { // utime, stime
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// resident is the resident memory of a process in MiB.
func resident(pid int) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for _, line := range bytes.Split(raw, []byte("\n")) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "VmRSS:" {
			kib, err := strconv.ParseInt(string(f[1]), 10, 64)
			return float64(kib) / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status says no VmRSS", pid)
}

// Machine is what the processors of this machine have done since it started.
type Machine struct{ busy, all int64 }

// ReadMachine reads the kernel's totals.
func ReadMachine() (Machine, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	var m Machine
	for i, f := range bytes.Fields(line)[1:] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return m, fmt.Errorf("/proc/stat: %w", err)
		}
		m.all += n
		if i != 3 && i != 4 { // idle, waiting for disks
			m.busy += n
		}
	}
	return m, nil
}

// Busy is the share of the processors that was in use since an earlier look, 0..1.
func (m Machine) Busy(since Machine) float64 {
	if m.all == since.all {
		return 0
	}
	return float64(m.busy-since.busy) / float64(m.all-since.all)
}
