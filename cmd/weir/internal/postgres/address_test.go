package postgres_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/postgres"
)

// TestParseURL checks which URLs are accepted, and that no error has the password.
func TestParseURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ url, want string }{
		{"postgres://weir:hunter2@db/weir", ""},
		{"postgresql://weir@db:5433/weir?sslmode=verify-full&sslrootcert=ca.pem", ""},
		{"postgres://weir@/weir?host=a,b&target_session_attrs=read-write", ""},
		{"postgres://weir@db/weir?password_file=" + file, ""},
		{"postgres://weir@db/weir?password_file=" + file + ".none", "parameter password_file"},
		{"postgres://weir:hunter2@db/weir?password_file=" + file, "no other password"},
		{"postgres://weir:hunter2@db", "want postgres://…/DATABASE"},
		{"postgres://weir:hunter2@db:port/weir", "want postgres://USER@HOST:PORT/DATABASE"},
		{"postgres://weir:hunter2@db/weir?sslmode=maybe", "sslmode"},
		{"postgres://weir:hunter2@db/weir?%zz", "percent-encoded"},
	} {
		_, err := postgres.ParseURL(test.url)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("ParseURL(%q) = %v", test.url, err)
		case test.want != "" && (!errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("ParseURL(%q) = %v, want ErrInvalid with %q and no password", test.url, err, test.want)
		}
	}
}
