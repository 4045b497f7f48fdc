package programtest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
)

func TestBuild(t *testing.T) {
	binary := programtest.Weir(t)
	out, err := exec.Command(binary, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "weir ") {
		t.Errorf("weir version = %q, %v", out, err)
	}
	if again := programtest.Weir(t); again != binary {
		t.Errorf("Weir again = %s, want %s", again, binary)
	}
	if inherited := os.Getenv("WEIR_TEST_PROGRAM_CMD_WEIR"); inherited != binary {
		t.Errorf("the environment names %q, want %s", inherited, binary)
	}
}

func TestOnce(t *testing.T) {
	const name = "once-test"
	built := 0
	build := func(path string) error {
		built++
		if built == 1 {
			_ = os.WriteFile(path, []byte("half"), 0o644)
			return errors.New("disk full")
		}
		return os.Mkdir(path, 0o755)
	}
	if path, err := programtest.Once(name, build); err == nil {
		t.Fatalf("Once = %s, want the error of build", path)
	}
	first, err := programtest.Once(name, build)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(first); err != nil {
			t.Error(err)
		}
	}()
	again, err := programtest.Once(name, build)
	if info, serr := os.Stat(first); err != nil || again != first || serr != nil || !info.IsDir() || built != 2 {
		t.Errorf("Once again = %s, %v after %d builds, want the directory %s of the second", again, err, built, first)
	}
}
