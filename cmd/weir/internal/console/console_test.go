package console_test

import (
	"compress/gzip"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/console"
)

func get(t *testing.T, path string, fields ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	console.New().ServeHTTP(w, r)
	return w.Result()
}

func TestPages(t *testing.T) {
	for _, page := range []string{"overview", "policies", "policy", "key", "try", "functions", "edit", "audit", "sign-in"} {
		r := get(t, console.Path+page)
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(string(body), "<noscript>") {
			t.Errorf("%s: %s, %s", page, r.Status, r.Header.Get("Content-Type"))
		}
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"} {
			if policy := r.Header.Get("Content-Security-Policy"); !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: Content-Security-Policy %q, want %s", page, policy, part)
			}
		}
	}
	if r := get(t, console.Path); r.Header.Get("Location") != "/console/overview" {
		t.Errorf("GET /console/ leads to %q, want the overview", r.Header.Get("Location"))
	}
	for _, path := range []string{"../console.go", "nothing", "text", "overview.html", "page", "page.html", "pages.json"} {
		if r := get(t, console.Path+path); r.StatusCode != 404 {
			t.Errorf("%s: %s, want 404", path, r.Status)
		}
	}
}

// TestTemplate compares the pages with page.html as html/template executes it.
func TestTemplate(t *testing.T) {
	frame, err := template.ParseFiles("page.html")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("pages.json")
	if err != nil {
		t.Fatal(err)
	}
	var pages []struct {
		Name, Title string
		API         []string
		Charts      bool
	}
	if err := json.Unmarshal(text, &pages); err != nil || len(pages) == 0 {
		t.Fatalf("pages.json: %d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		var want strings.Builder
		if err := frame.Execute(&want, p); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(get(t, console.Path+p.Name).Body)
		if string(got) != want.String() {
			t.Errorf("%s:\n%s\nwant\n%s", p.Name, got, want.String())
		}
	}
}

func TestMethods(t *testing.T) {
	w := httptest.NewRecorder()
	console.New().ServeHTTP(w, httptest.NewRequest(http.MethodPost, console.Path+"overview", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST = %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	r := get(t, console.Path+"style.css", "Accept-Encoding", "gzip")
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	packed, _ := io.ReadAll(unpacked)
	plain, _ := io.ReadAll(get(t, console.Path+"style.css").Body)
	if string(packed) != string(plain) || len(plain) == 0 {
		t.Errorf("compressed and plain style.css differ")
	}
	tag := r.Header.Get("Etag")
	if again := get(t, console.Path+"style.css", "Accept-Encoding", "gzip", "If-None-Match", tag); again.StatusCode != 304 {
		t.Errorf("If-None-Match %s: %s, want 304", tag, again.Status)
	}
	if other := get(t, console.Path+"style.css", "If-None-Match", tag); other.StatusCode != 200 {
		t.Errorf("the plain file has the tag of the compressed one")
	}
}
