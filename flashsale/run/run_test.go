package run_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/run"
)

// t0 is a time at which sessions are read.
var t0 = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// start runs an embedded flash sale on any ports.
func start(t *testing.T, c run.Config) *run.System {
	t.Helper()
	c.Shop, c.Office = "127.0.0.1:0", "127.0.0.1:0"
	s, err := run.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

// TestSecret looks at the secret that is made, who may read it, and that the next start
// takes it again: sessions go on.
func TestSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, run.Config{Data: dir})
	path := filepath.Join(dir, "secret")
	made, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, st.Mode().Perm(), err, want)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	keys, err := run.Keys(path)
	if err != nil {
		t.Fatal(err)
	}
	text := keys.Session(pass.Session{User: "u", Expires: t0.AddDate(100, 0, 0)})
	start(t, run.Config{Data: dir})
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, made) {
		t.Errorf("the second start has another secret (%v)", err)
	}
	if keys, err = run.Keys(path); err != nil {
		t.Fatal(err)
	}
	if got, err := keys.OpenSession(text, t0); err != nil || got.User != "u" {
		t.Errorf("OpenSession after a start = %+v, %v", got, err)
	}
}

// TestStartFails looks for what is left of a start that failed: the port is free again, and
// the directory can be used.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	first := start(t, run.Config{Data: dir})
	taken := strings.TrimPrefix(first.OfficeURL, "http://")
	other := t.TempDir()
	for range 2 {
		if s, err := run.Start(t.Context(), run.Config{Data: other, Shop: "127.0.0.1:0", Office: taken}); err == nil {
			s.Stop()
			t.Fatal("two listen at one address")
		} else if !strings.Contains(err.Error(), "office "+taken) {
			t.Errorf("error = %v, want the listener and its address", err)
		}
	}
	s := start(t, run.Config{Data: other})
	for _, u := range []string{s.ShopURL + "/api/time", s.OfficeURL + "/readyz", s.OfficeURL + "/metrics"} {
		res, err := http.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %s", u, res.Status)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("Stop again = %v", err)
	}
}
