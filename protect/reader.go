package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A MetricReader reads the use of the resources of this process: of its container, if it has limits, or
// else of the machine. An error means that this machine does not have the metric.
type MetricReader interface {
	// CPU returns the processor time used since some instant, and the number of processors
	// that may be used.
	CPU() (used time.Duration, cores float64, err error)

	// Memory returns the bytes in use that cannot be reclaimed, and the limit.
	Memory() (used, limit int64, err error)

	// Load returns the load average of the last minute. That of a container is the machine's.
	Load() (float64, error)
}

// MachineMetrics returns a MetricReader of the files of Linux: control groups of version 2 or 1, or else
// /proc. On other systems it has no metric.
func MachineMetrics() MetricReader { return files{os.ReadFile} }

type files struct {
	read func(name string) ([]byte, error)
}

const groups = "/sys/fs/cgroup"

func (f files) text(name string) (string, error) {
	b, err := f.read(name)
	return strings.TrimSpace(string(b)), err
}

func (f files) number(name string) (int64, error) {
	s, err := f.text(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// field returns the number after name in a file of names and numbers.
func (f files) field(file, name string) (int64, error) {
	s, err := f.text(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(s) {
		if all := strings.Fields(line); len(all) == 2 && strings.TrimSuffix(all[0], ":") == name {
			return strconv.ParseInt(all[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, name)
}

// directories returns the control groups of this process for a controller, the innermost first.
// In a namespace of its own, a process sees its group as the root.
func (f files) directories(controller string) []string {
	s, _ := f.text("/proc/self/cgroup")
	base, at := groups, "/"
	if !f.version2() {
		base = path.Join(groups, controller)
	}
	for line := range strings.Lines(s) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && (f.version2() && part[0] == "0" || !f.version2() && strings.Contains(","+part[1]+",", ","+controller+",")) {
			at = part[2]
		}
	}
	var all []string
	for at = path.Clean("/" + at); ; at = path.Dir(at) {
		all = append(all, path.Join(base, at))
		if at == "/" {
			return all
		}
	}
}

func (f files) version2() bool {
	_, err := f.read(groups + "/cgroup.controllers")
	return err == nil
}

// CPU implements MetricReader. The time is that of the innermost group with a quota, or of the machine.
func (f files) CPU() (time.Duration, float64, error) {
	cores, limited := float64(runtime.NumCPU()), ""
	for _, dir := range f.directories("cpu") {
		if quota, ok := f.quota(dir); ok && quota < cores {
			cores, limited = quota, dir
		}
	}
	if limited == "" {
		used, err := f.machine()
		return used, float64(runtime.NumCPU()), err
	}
	if f.version2() {
		n, err := f.field(limited+"/cpu.stat", "usage_usec")
		return time.Duration(n) * time.Microsecond, cores, err
	}
	n, err := f.number(strings.Replace(limited, groups+"/cpu", groups+"/cpuacct", 1) + "/cpuacct.usage")
	return time.Duration(n), cores, err
}

// quota returns the number of processors that a group may use, if it has a limit.
func (f files) quota(dir string) (float64, bool) {
	var quota, period int64
	var err, err2 error
	if f.version2() {
		s, _ := f.text(dir + "/cpu.max")
		q, p, _ := strings.Cut(s, " ")
		quota, err = strconv.ParseInt(q, 10, 64) // or "max"
		period, err2 = strconv.ParseInt(p, 10, 64)
	} else {
		quota, err = f.number(dir + "/cpu.cfs_quota_us")
		period, err2 = f.number(dir + "/cpu.cfs_period_us")
	}
	if err != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0, false
	}
	return float64(quota) / float64(period), true
}

// machine returns the processor time of the machine, in units of 10 ms.
func (f files) machine() (time.Duration, error) {
	s, err := f.text("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(s, "\n")
	all := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(all) < 8 || all[0] != "cpu" {
		return 0, errors.New("/proc/stat: no cpu")
	}
	var used int64
	for i, field := range all[1:min(len(all), 9)] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		if i != 3 && i != 4 { // idle, iowait
			used += n
		}
	}
	return time.Duration(used) * 10 * time.Millisecond, nil
}

// Memory implements MetricReader.
func (f files) Memory() (int64, int64, error) {
	names := [3]string{"memory.max", "memory.current", "inactive_file"}
	if !f.version2() {
		names = [3]string{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	}
	total, err := f.kilobytes("MemTotal")
	for _, dir := range f.directories("memory") {
		limit, bad := f.number(dir + "/" + names[0])
		if bad != nil || limit <= 0 || total > 0 && limit > total {
			continue // no limit
		}
		used, bad := f.number(dir + "/" + names[1])
		if bad != nil {
			return 0, 0, bad
		}
		cache, _ := f.field(dir+"/memory.stat", names[2])
		return used - cache, limit, nil
	}
	if err != nil {
		return 0, 0, err
	}
	free, err := f.kilobytes("MemAvailable")
	return total - free, total, err
}

// kilobytes returns a number of /proc/meminfo in bytes: "MemTotal:  8000 kB".
func (f files) kilobytes(name string) (int64, error) {
	s, err := f.text("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(s) {
		if all := strings.Fields(line); len(all) >= 2 && all[0] == name+":" {
			n, err := strconv.ParseInt(all[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo: no %s", name)
}

// Load implements MetricReader.
func (f files) Load() (float64, error) {
	s, err := f.text("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	one, _, _ := strings.Cut(s, " ")
	return strconv.ParseFloat(one, 64)
}
