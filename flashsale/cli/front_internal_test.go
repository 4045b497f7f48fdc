package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestWriteFront checks that a file that may hold a password is for its owner alone.
func TestWriteFront(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which has no such modes
	}
	path := filepath.Join(t.TempDir(), "weir.yaml")
	for _, c := range []struct {
		secret bool
		want   os.FileMode
	}{{false, 0o644}, {true, 0o600}, {true, 0o600}} {
		if err := writeFront(path, "text", c.secret); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != c.want {
			t.Errorf("secret %v: mode %v, %v, want %v", c.secret, st.Mode().Perm(), err, c.want)
		}
	}
}
