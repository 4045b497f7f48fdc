// Package programtest builds the programs and files that tests need, once for all test packages.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root returns the tree's root: the directory of go.work above the first working directory,
// which a test may have left.
var root = sync.OnceValues(func() (string, error) {
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("programtest: no go.work above %s", start)
		}
	}
})

var start, _ = os.Getwd()

// Build builds a main package of the tree, such as "./cmd/weir", with flags of go build, and
// returns the binary's path. The binaries lie in .bin/test of the tree, where the next test
// package finds them: go build then only compares build IDs. An environment variable holds the
// path for later calls and for the processes that the test starts.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	binary, err := build(pkg, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Weir builds the program weir.
func Weir(t testing.TB) string {
	t.Helper()
	return Build(t, "./cmd/weir")
}

func build(pkg string, flags ...string) (string, error) {
	name := strings.NewReplacer("./", "", "/", "-", "=", "-").Replace(strings.Join(append([]string{pkg}, flags...), ""))
	variable := "WEIR_TEST_PROGRAM_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if binary := os.Getenv(variable); binary != "" {
		return binary, nil
	}
	dir, unlock, err := open("lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	binary := filepath.Join(dir, name)
	// No test debugs a program, so it is linked without its symbol table. Compilers and linkers trade
	// memory for time, as in the Makefile.
	args := append([]string{"build", "-o", binary, "-ldflags=-s -w"}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = filepath.Dir(filepath.Dir(dir))
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=3GiB")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return binary, os.Setenv(variable, binary)
}

// Once returns the path of a file or directory that build makes at the path it gets, unless a test
// of the tree made one of the same name before.
func Once(name string, build func(path string) error) (string, error) {
	dir, unlock, err := open(name + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unfinished := path + ".new" // of this call, or of a process that was killed
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := build(unfinished); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

// open returns the directory .bin/test of the tree, and holds a lock file there until unlock.
func open(name string) (dir string, unlock func(), err error) {
	root, err := root()
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(root, ".bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	unlock, err = lock(filepath.Join(dir, name))
	return dir, unlock, err
}
