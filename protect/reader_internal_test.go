package protect

import (
	"io/fs"
	"runtime"
	"testing"
	"time"
)

// TestReader reads the files of control groups of both versions, and of a machine without them.
func TestReader(t *testing.T) {
	proc := map[string]string{
		"/proc/stat":    "cpu  100 10 50 9999 77 5 5 0 0 0\ncpu0 1 1 1\n", // 170 ticks
		"/proc/meminfo": "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n",
		"/proc/loadavg": "1.25 0.50 0.25 1/100 1234\n",
	}
	for _, c := range []struct {
		name        string
		files       map[string]string
		cpu         time.Duration
		cores       float64
		used, limit int64
	}{
		{name: "no control group", cpu: 1700 * time.Millisecond, cores: float64(runtime.NumCPU()), used: 750 << 10, limit: 1000 << 10},
		{name: "version 2, in a namespace", cpu: 3 * time.Second, cores: 0.5, used: 300, limit: 1000, files: map[string]string{
			"/sys/fs/cgroup/cgroup.controllers": "cpu memory", "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/cpu.max": "50000 100000\n", "/sys/fs/cgroup/cpu.stat": "usage_usec 3000000\nuser_usec 1\n",
			"/sys/fs/cgroup/memory.max": "1000\n", "/sys/fs/cgroup/memory.current": "400\n", "/sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 100\n",
		}},
		{name: "version 2, limit of an ancestor", cpu: 4 * time.Second, cores: 0.25, used: 400, limit: 1000, files: map[string]string{
			"/sys/fs/cgroup/cgroup.controllers": "cpu memory", "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "/sys/fs/cgroup/a/cpu.max": "25000 100000\n", "/sys/fs/cgroup/a/cpu.stat": "usage_usec 4000000\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1000\n", "/sys/fs/cgroup/a/memory.current": "400\n",
		}},
		{name: "version 1", cpu: 5 * time.Second, cores: 0.5, used: 300, limit: 1000, files: map[string]string{
			"/proc/self/cgroup":                             "5:cpu,cpuacct:/a\n3:memory:/m\n",
			"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":         "50000\n",
			"/sys/fs/cgroup/cpu/a/cpu.cfs_period_us":        "100000\n",
			"/sys/fs/cgroup/cpuacct/a/cpuacct.usage":        "5000000000\n",
			"/sys/fs/cgroup/memory/m/memory.limit_in_bytes": "1000\n",
			"/sys/fs/cgroup/memory/m/memory.usage_in_bytes": "400\n",
			"/sys/fs/cgroup/memory/m/memory.stat":           "total_inactive_file 100\n",
			"/sys/fs/cgroup/cpu/cpu.cfs_quota_us":           "-1\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := files{func(name string) ([]byte, error) {
				for _, m := range []map[string]string{c.files, proc} {
					if s, ok := m[name]; ok {
						return []byte(s), nil
					}
				}
				return nil, fs.ErrNotExist
			}}
			if cpu, cores, err := f.CPU(); err != nil || cpu != c.cpu || cores != c.cores {
				t.Errorf("CPU = %v, %v, %v, want %v, %v", cpu, cores, err, c.cpu, c.cores)
			}
			if used, limit, err := f.Memory(); err != nil || used != c.used || limit != c.limit {
				t.Errorf("Memory = %d, %d, %v, want %d, %d", used, limit, err, c.used, c.limit)
			}
			if load, err := f.Load(); err != nil || load != 1.25 {
				t.Errorf("Load = %v, %v, want 1.25", load, err)
			}
		})
	}
	none := files{func(string) ([]byte, error) { return nil, fs.ErrNotExist }}
	_, _, err := none.CPU()
	_, _, err2 := none.Memory()
	_, err3 := none.Load()
	if err == nil || err2 == nil || err3 == nil {
		t.Errorf("without files: %v, %v, %v, want errors", err, err2, err3)
	}
}
