package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CPU returns the CPU time of processes and their children in ns. It is read from /proc of
// Linux. A thread that ended does not count, so use it for servers, whose threads stay.
func CPU(pids ...int) (sum float64, err error) {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(threads) == 0 {
			return 0, fmt.Errorf("compare: process %d has no /proc/%d/task", pid, pid)
		}
		for _, dir := range threads {
			v, err := threadCPU(dir)
			if err != nil {
				return 0, err
			}
			sum += v
			children, err := os.ReadFile(filepath.Join(dir, "children"))
			if err != nil {
				continue // the thread ended
			}
			for _, child := range strings.Fields(string(children)) {
				id, err := strconv.Atoi(child)
				if err != nil {
					return 0, err
				}
				if v, err := CPU(id); err == nil {
					sum += v
				}
			}
		}
	}
	return sum, nil
}

func threadCPU(dir string) (float64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
	if os.IsNotExist(err) {
		return 0, nil // the thread ended
	}
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
