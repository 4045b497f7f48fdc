package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/weirfile"
)

// TestLimited checks that requests and functions have the limits of the file that is followed.
func TestLimited(t *testing.T) {
	text := "policies: [{ name: api, key: header:K, limits: 3/h }]\nfunctions: { rules: [{ name: getId, limits: 1/h }] }\n"
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := open("", "http://weir.example", new(weirfile.Follower), new(instances.Publisher))
	if err != nil {
		t.Fatal(err)
	}
	h, err := limited(t.Context(), store, &weirfile.Follower{Path: path}, new(instances.Counters))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		user string
		want int
	}{{"anna", 200}, {"anna", 429}, {"ben", 200}, {"cleo", 429}} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/id?user="+c.user, nil)); w.Code != c.want {
			t.Errorf("request %d = %d %s, want %d", i, w.Code, w.Body, c.want)
		}
	}
	if live := guard.Default().Live(); len(live) != 1 || !live[0].Rule {
		t.Errorf("the guards are %+v, want getId under its rule", live)
	}
}
