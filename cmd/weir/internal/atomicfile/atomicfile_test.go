package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "weir.conf")
	for _, step := range []struct {
		text string
		mode os.FileMode
	}{{"one", 0o600}, {"two", 0o644}, {"", 0o666}} {
		if err := atomicfile.Write(name, []byte(step.text), step.mode); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		info, statErr := os.Stat(name)
		if err != nil || statErr != nil || string(text) != step.text || info.Mode() != step.mode {
			t.Errorf("got %q with %v, want %q with %v", text, info.Mode(), step.text, step.mode)
		}
	}
}

// TestReaders checks that an open file keeps its content.
func TestReaders(t *testing.T) {
	name := filepath.Join(t.TempDir(), "weir.conf")
	if err := atomicfile.Write(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := atomicfile.Write(name, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	var text [4]byte
	if n, _ := f.Read(text[:]); string(text[:n]) != "old" {
		t.Errorf("a reader of the old file sees %q", text[:n])
	}
}

// TestError checks that an error changes nothing and leaves no temporary file.
func TestError(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{taken, filepath.Join(dir, "absent", "weir.conf")} {
		if err := atomicfile.Write(name, []byte("x"), 0o600); err == nil {
			t.Errorf("Write(%s) succeeds", name)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || !left[0].IsDir() {
		t.Errorf("the directory has %v, %v; want the one before", left, err)
	}
}
