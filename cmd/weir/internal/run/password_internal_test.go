package run

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

// TestStorePasswordInText checks that a policy text with the password of a store reaches the role
// operate alone, and that a change of the text and a rollback keep the password.
func TestStorePasswordInText(t *testing.T) {
	const password = "correct-horse-battery"
	const text = "store: redis://weir:" + password + "@192.0.2.1:6379 # the shared one\npolicies: [{ name: a, key: client.ip, limits: 1/s }]\n"
	tokens, lines := map[access.Role]string{}, ""
	for _, role := range []access.Role{access.Read, access.Operate} {
		token, line, err := access.NewToken(role, string(role))
		if err != nil {
			t.Fatal(err)
		}
		tokens[role], lines = token, lines+line+"\n"
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveFile(t, map[string]string{"admin-token-file": file, "store": "memory"})
	s.write(t, s.file, text)
	s.hangup <- nil
	s.log.until(t, "configuration reloaded")
	send := func(role access.Role, method, path string, body any) (int, string) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(method, s.admin.url()+path, strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+tokens[role])
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(got)
	}
	ok := func(method, path string, body any) (v object) {
		t.Helper()
		code, got := send(access.Operate, method, path, body)
		if err := json.Unmarshal([]byte(got), &v); code != 200 || err != nil {
			t.Fatalf("%s %s = %d %s", method, path, code, got)
		}
		return v
	}

	if v := ok("GET", "/v1/text", nil); v["text"] != text || v["version"] != 1.0 {
		t.Fatalf("text = %v, want that of the file", v)
	}
	edited := ok("POST", "/v1/draft/set", object{"text": text, "policy": "a", "field": "limits", "value": "2/s"})["text"]
	if want := strings.Replace(text, "1/s", "2/s", 1); edited != want {
		t.Errorf("edited = %q, want %q", edited, want)
	}
	ok("POST", "/v1/apply", object{"text": edited, "base": 1, "reason": "x"})
	ok("POST", "/v1/rollback", object{"version": 1, "base": 2, "reason": "x"})
	for path, want := range map[string]any{"/v1/versions/1": text, "/v1/versions/2": edited, "/v1/versions/3": text, "/v1/text": text} {
		if got := ok("GET", path, nil)["text"]; got != want {
			t.Errorf("%s has the text %q, want %q", path, got, want)
		}
	}

	sent := 0
	for _, route := range s.adminRoutes() {
		method, path, found := strings.Cut(route.Pattern, " ")
		if !found {
			method, path = "GET", route.Pattern
		}
		if path == "/v1/events" {
			continue // a stream of what the other paths have
		}
		path = strings.NewReplacer("{version}", "1", "{name}", "a", "{action}", "freeze").Replace(path)
		body := object{}
		switch path {
		case "/v1/draft":
			body = object{"text": "policies: []", "base": 3}
		case "/v1/apply":
			body = object{"text": "policies: []", "base": 1, "reason": "x"} // a conflict has the current text
		case "/v1/rollback":
			body = object{"version": 2, "base": 1, "reason": "x"}
		}
		if code, got := send(access.Read, method, path, body); strings.Contains(got, password) {
			t.Errorf("read sees the password: %s %s = %d %s", method, path, code, got)
		}
		sent++
	}
	if sent < 15 {
		t.Errorf("%d paths, want all of the interface", sent)
	}
}
