package edge_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// made is the directory of what the tests of this process share.
var made string

func TestMain(m *testing.M) {
	var err error
	if made, err = os.MkdirTemp("", "weir-edge-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(made)
	os.Exit(code)
}

// builtWeir is the program, built once.
var builtWeir = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(made, "weir")
	if out, err := exec.Command("go", "build", "-C", "../../cmd/weir", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})
