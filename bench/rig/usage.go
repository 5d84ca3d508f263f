package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// userHz is the unit of times in /proc: 100 on every Linux that Go runs on.
const userHz = 100

// CPU is what a process has used so far, user and system, all its threads.
func CPU(pid int) (time.Duration, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d (this needs /proc): %w", pid, err)
	}
	const utime, stime = 11, 12 // after the name, which is left out
	total := 0
	for _, i := range []int{utime, stime} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		total += n
	}
	return time.Duration(total) * time.Second / userHz, nil
}

// stat is what /proc says of a process, after its name.
func stat(pid int) ([]string, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	_, after, found := strings.Cut(string(body), ") ")
	fields := strings.Fields(after)
	if !found || len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	return fields, nil
}

// PeakMemory is the most that a process has had resident, in bytes.
func PeakMemory(pid int) (int64, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d (this needs /proc): %w", pid, err)
	}
	_, after, found := strings.Cut(string(body), "VmHWM:")
	fields := strings.Fields(after)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10, err
}

// Children are the processes that pid started, of which the command line holds
// a word.
func Children(pid int, word string) (found []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		fields, err := stat(child)
		if err != nil || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && bytes.Contains(line, []byte(word)) {
			found = append(found, child)
		}
	}
	return found
}

// OwnCPU is what this process has used so far.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
