package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestGo runs testdata/go/*.txtar: what weir go and go vet make of modules that require
// this tree, at $ROOT. They share the build cache and the build flags of the test, and fetch
// nothing. With other flags a script compiles the standard library once more, so $POSITIONS are
// without -trimpath in make test-long only. Vet is the subject of one script.
func TestGo(t *testing.T) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Split(strings.TrimSpace(string(out)), "\n")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	positions := os.Getenv("GOFLAGS") + " -mod=mod -vet=off"
	if os.Getenv("WEIR_LONG") != "" {
		positions = "-mod=mod -vet=off -gcflags=all=-dwarf=false"
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "go"),
		Setup: func(e *testscript.Env) error {
			for _, v := range []string{
				"GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOPROXY=off", "BUILD=" + os.Getenv("GOFLAGS"), "GOFLAGS=" + os.Getenv("GOFLAGS") + " -mod=mod -vet=off", "POSITIONS=" + positions, "GOWORK=off",
				"GOTOOLCHAIN=local", "GOENV=off", "GOGC=off", "GOMEMLIMIT=1GiB", // compilers trade memory for time
				"ROOT=" + root, "XDG_CACHE_HOME=" + filepath.Join(e.WorkDir, ".cache"),
			} {
				name, value, _ := strings.Cut(v, "=")
				e.Setenv(name, value)
			}
			bin, err := exec.LookPath("weir") // testscript has put this program there
			if err != nil {
				return err
			}
			e.Setenv("BIN", bin)
			e.Setenv("WEIR", "github.com/floodweir/weir@v0.0.0="+root)
			return nil
		},
	})
}
