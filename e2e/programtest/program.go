// Package programtest builds the programs that tests run, once for all test packages.
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
	root, err := root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	binary := filepath.Join(dir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", binary}, flags...), pkg)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOGC=400") // less CPU time for more memory, as in the Makefile
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return binary, os.Setenv(variable, binary)
}
