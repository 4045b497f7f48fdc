package programtest_test

import (
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
