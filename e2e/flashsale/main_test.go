package flashsale_test

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

// programs is the directory of the programs that the tests build.
var programs string

func TestMain(m *testing.M) {
	// The tests wait for servers more than they use the CPU.
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < minParallel {
		flag.Set("test.parallel", strconv.Itoa(minParallel))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "flashsale-programs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	return m.Run()
}

// minParallel is the minimum number of parallel tests.
const minParallel = 6

// buildWeir returns the path of the program weir.
var buildWeir = built("weir", "../../cmd/weir")

// buildChild returns the path of the shop that tests kill, with its crash points.
var buildChild = built("child", "child/program", "-tags", "crashpoints")

// built returns a function that builds the program in dir when a test first needs it.
func built(name, dir string, flags ...string) func(t testing.TB) string {
	build := sync.OnceValues(func() (string, error) {
		binary := filepath.Join(programs, name)
		args := append([]string{"build", "-C", dir, "-o", binary}, flags...)
		out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("go build %s: %w\n%s", name, err, out)
		}
		return binary, err
	})
	return func(t testing.TB) string {
		t.Helper()
		binary, err := build()
		if err != nil {
			t.Fatal(err)
		}
		return binary
	}
}
