package pgtest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of so many megabytes and creates a tablespace on it. resize
// changes its size. ok is false if the test may not mount: it needs root.
func (s *Server) SmallDisk(t testing.TB, tablespace string, megabytes int) (resize func(megabytes int), ok bool) {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "small")
	if err != nil {
		t.Fatal(err)
	}
	size := func(mb int) string { return fmt.Sprintf("size=%dm,mode=755", mb) }
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, size(megabytes)); err != nil {
		t.Logf("pgtest: no small disk: %v", err)
		return nil, false
	}
	t.Cleanup(func() {
		s.Stop() // it has open files there
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	if err := reachable(dir); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "postgres", "CREATE TABLESPACE "+tablespace+" LOCATION '"+dir+"'")
	return func(mb int) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_REMOUNT, size(mb)); err != nil {
			t.Fatal(err)
		}
	}, true
}

// endWithTest stops a server when its test is killed.
func endWithTest(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
