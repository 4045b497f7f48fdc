package pgtest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

const (
	memory  = "/dev/shm"
	minFree = 4 << 30 // bytes: the databases of a test package need a tenth
)

// memoryDir makes a directory in memory until the test ends, or returns "" if there is no room. It
// removes the directories of tests that were killed: each test locks its own.
func memoryDir(t testing.TB) string {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < minFree {
		return ""
	}
	all, err := lockDir(memory, 0) // from here on no other test makes or removes one
	if err != nil {
		return ""
	}
	defer all.Close()
	old, _ := filepath.Glob(memory + "/pgtest*")
	for _, dir := range old {
		if f, err := lockDir(dir, syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir) // of another user, perhaps
			f.Close()
		}
	}
	dir, err := os.MkdirTemp(memory, "pgtest")
	if err != nil {
		return ""
	}
	f, err := lockDir(dir, syscall.LOCK_NB)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return dir
}

// lockDir locks a directory until the file is closed or the process ends.
func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "flock", Path: dir, Err: err}
	}
	return f, nil
}
