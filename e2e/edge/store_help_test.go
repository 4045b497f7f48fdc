package edge_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeStoreModule writes storetest.lua into a directory.
func writeStoreModule(t *testing.T, dir string, settings storeSettings, plan *storePlan) {
	t.Helper()
	text := strings.NewReplacer("PLAN", storeJSON(t, plan), "SETTINGS", storeJSON(t, settings)).Replace(storeModule)
	for name, text := range map[string]string{"storetest.lua": text, "storeonce.lua": storeOnce} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var storeClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func storePost(t *testing.T, addr, body string) string {
	t.Helper()
	res, err := storeClient.Post("http://"+addr+"/", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// code runs Lua on a worker of s, which keeps the code of the first call.
func (s *storeServer) code(t *testing.T, code, body string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, "code.lua"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := storeClient.Post("http://"+s.Addr+"/code", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v; the log of nginx:\n%s", res.StatusCode, err, s.Log())
	}
	return string(b)
}
