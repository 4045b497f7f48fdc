package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// atOnce is how many parallel tests run at once, at least: they wait for servers more
// than they work. A test that measures rates, or how long something takes, is not one of
// them: it runs alone.
const atOnce = 4

func TestMain(m *testing.M) {
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < atOnce {
		flag.Set("test.parallel", strconv.Itoa(atOnce))
	}
	if os.Getenv(programsVariable) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "weir-e2e-*")
	if err == nil {
		err = os.Setenv(programsVariable, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// programsVariable names the directory of the programs that the tests run. Each is built
// once, and a process that a test starts to go on in (alone) finds them there.
const programsVariable = "WEIR_TEST_PROGRAMS"

// builds are those of this process: a package, and a func() error.
var builds sync.Map

// program is the program of a package of the tree, such as ./cmd/weir.
func program(t testing.TB, pkg string) string {
	t.Helper()
	binary := filepath.Join(os.Getenv(programsVariable), filepath.Base(pkg))
	build, _ := builds.LoadOrStore(pkg, sync.OnceValue(func() error {
		if _, err := os.Stat(binary); err == nil {
			return nil
		}
		// It stands there whole, or not at all.
		cmd := exec.Command("go", "build", "-o", binary+".new", pkg)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
		return os.Rename(binary+".new", binary)
	}))
	if err := build.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return binary
}

// build is the program weir.
func build(t testing.TB) string {
	t.Helper()
	return program(t, "./cmd/weir")
}
