// Package measure measures latencies and the resources of processes.
package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Resources holds the resources that processes used.
type Resources struct {
	Own     time.Duration    // CPU time of this process
	Share   float64          // of all CPUs, by this process
	Servers map[string]Usage // by name
}

// A Meter measures processes.
type Meter struct {
	own     time.Duration
	pids    map[string]int
	before  map[string]Usage
	highest map[string]int64
	done    chan struct{}
	ended   sync.WaitGroup
}

// Start starts to measure processes, by name.
func Start(pids map[string]int) *Meter {
	m := &Meter{own: ownCPU(), pids: pids, before: map[string]Usage{}, highest: map[string]int64{}, done: make(chan struct{})}
	for name, pid := range pids {
		m.before[name] = Usage{CPU: cpuOf(pid), RSS: rssOf(pid)}
	}
	m.ended.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			for name, pid := range pids {
				m.highest[name] = max(m.highest[name], rssOf(pid))
			}
			select {
			case <-tick.C:
			case <-m.done:
				return
			}
		}
	})
	return m
}

// Stop ends the measurement, which took this long.
func (m *Meter) Stop(took time.Duration) Resources {
	close(m.done)
	m.ended.Wait()
	all := float64(max(took, time.Microsecond)) * float64(runtime.NumCPU())
	u := Resources{Own: ownCPU() - m.own, Servers: map[string]Usage{}}
	u.Share = float64(u.Own) / all
	for name, pid := range m.pids {
		was := m.before[name]
		used := max(0, cpuOf(pid)-was.CPU)
		u.Servers[name] = Usage{CPU: used, Share: float64(used) / all, RSS: m.highest[name], Grew: m.highest[name] - was.RSS}
	}
	return u
}

// cpuOf returns the CPU time of a process and its children, ended ones included. The resolution
// is the 10 ms of /proc; it returns 0 without /proc.
func cpuOf(pid int) time.Duration {
	proc := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return 0
	}
	// The program's name is in parentheses and may contain any character.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0
	}
	var used time.Duration
	for _, f := range fields[11:15] { // user and system time, then those of ended children
		n, _ := strconv.ParseInt(string(f), 10, 64)
		used += time.Duration(n) * 10 * time.Millisecond
	}
	children, _ := filepath.Glob(proc + "/task/*/children")
	for _, path := range children {
		ids, _ := os.ReadFile(path)
		for id := range bytes.FieldsSeq(ids) {
			if child, err := strconv.Atoi(string(id)); err == nil {
				used += cpuOf(child)
			}
		}
	}
	return used
}

// rssOf returns the resident memory of a process, 0 if unknown.
func rssOf(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// ThisMachine describes this machine.
func ThisMachine() Machine {
	m := Machine{Processors: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpu)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.Model = strings.TrimSpace(value)
			break
		}
	}
	memory, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(memory)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			m.Memory = kb << 10
		}
	}
	return m
}

// A Machine describes the machine of a run.
type Machine struct {
	Processors int    `json:"processors"`
	Model      string `json:"model,omitempty"`
	Memory     int64  `json:"memory_bytes,omitempty"`
	System     string `json:"system"`
	Go         string `json:"go"`
}

// Usage holds the resources that a process used during a run.
type Usage struct {
	CPU   time.Duration `json:"cpu_ns"`    // including child processes
	Share float64       `json:"share"`     // of all CPUs
	RSS   int64         `json:"rss_bytes"` // the maximum, without child processes
	Grew  int64         `json:"grew_bytes"`
}
