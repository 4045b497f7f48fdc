package weircaddy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers" // the directive header

	_ "github.com/floodweir/weir/contrib/caddy"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/floodweir/weir/internal/porttest"
)

// A site is a Caddy with one site, whose responses are hello. Caddy has one configuration in a
// process, so these tests are not parallel.
type site struct {
	t       *testing.T
	address string
	file    string
}

func newSite(t *testing.T) *site {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &site{t, porttest.Address(t), filepath.Join(t.TempDir(), "weir.yaml")}
}

func (s *site) policies(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// load loads a Caddyfile whose site has directives before the response. FILE is the policy file.
func (s *site) load(directives string) error {
	text := fmt.Sprintf("{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tdefault_bind 127.0.0.1\n}\nhttp://%s {\n\t%s\n\trespond hello\n}\n",
		s.address, strings.ReplaceAll(directives, "FILE", s.file))
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

func (s *site) mustLoad(directives string) {
	s.t.Helper()
	if err := s.load(directives); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) want(path string, status int, fields ...string) {
	s.t.Helper()
	a := limittest.Do(s.t, "GET", "http://"+s.address+path)
	if a.Status != status {
		s.t.Errorf("GET %s: status %d, want %d\n%s", path, a.Status, status, a.Body)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if got := a.Header.Get(name); !strings.HasPrefix(got, value) {
			s.t.Errorf("GET %s: %s = %q, want %q", path, name, got, value)
		}
	}
	if status == http.StatusOK && a.Body != "hello" {
		s.t.Errorf("GET %s: body %q, want hello", path, a.Body)
	}
}

// block returns the directive with the policy file and further lines.
func block(lines ...string) string {
	return "weir {\n\tfile FILE\n\t" + strings.Join(lines, "\n\t") + "\n\t}"
}

var weir = block()

const perClient = "policies:\n  - name: per-client\n    key: [client.ip]\n    limits: [%s]\n"

// TestLimit checks an admitted and a denied request.
func TestLimit(t *testing.T) {
	s := newSite(t)
	s.policies(fmt.Sprintf(perClient, "1/h"))
	s.mustLoad(weir)
	s.want("/", 200, `RateLimit: "per-client";r=0;`, "Retry-After: ")
	s.want("/", 429, `RateLimit: "per-client";r=0;`, "Retry-After: 3")
}

// TestReload checks that state outlasts a reload, also of a changed limit, and that an invalid
// configuration leaves the one before.
func TestReload(t *testing.T) {
	s := newSite(t)
	s.policies(fmt.Sprintf(perClient, "2/h"))
	s.mustLoad(weir)
	s.want("/", 200)
	s.want("/", 200)
	s.mustLoad("header X-Generation 2\n" + weir)
	s.want("/", 429, "X-Generation: 2")

	s.policies("policies:\n  - name: per-client\n    key: [client.ip]\n    limits: [2/fortnight]\n")
	err := s.load(weir)
	if want := s.file + ":4:14: policies[0].limits[0]: "; err == nil || strings.Count(err.Error(), want) != 1 || strings.Contains(err.Error(), "\n") {
		t.Errorf("load = %v, want one error with %s", err, want)
	}
	s.want("/", 429, "X-Generation: 2")

	s.policies(strings.ReplaceAll(fmt.Sprintf(perClient, "2/h"), "per-client", "other"))
	if err := s.load(weir + "\n\tweir {\n\t\tfile FILE.missing\n\t}"); err == nil {
		t.Error("a Caddyfile with a missing policy file was loaded")
	}

	s.policies("failover: { nodes: 3 }\n" + fmt.Sprintf(perClient, "2/d")) // continues from 2/h
	s.mustLoad(weir)
	s.want("/", 429)
}

// TestFailures checks that a policy counts the status of an error that Caddy answers after the
// handlers, and that handle_errors still answers it.
func TestFailures(t *testing.T) {
	s := newSite(t)
	s.policies(fmt.Sprintf(perClient, "2/h") + "    count: failures\n")
	s.mustLoad(weir + "\n\terror /no 401\n\thandle_errors {\n\t\trespond denied 403\n\t}")
	for range 3 {
		s.want("/", 200)
	}
	s.want("/no", 403)
	s.want("/no", 403)
	s.want("/", 429)
}

// TestBadDirective checks the errors of the Caddyfile and of the store, which have the line and
// the field.
func TestBadDirective(t *testing.T) {
	s := newSite(t)
	s.policies(fmt.Sprintf(perClient, "1/h"))
	for directive, want := range map[string]string{
		"weir":                             "file: got nothing, want the path of a policy file, at Caddyfile:8",
		"weir FILE":                        "file: got nothing",
		"weir * FILE":                      "want a block with file, at Caddyfile:8",
		block("burst 3"):                   `got "burst", want file or store, at Caddyfile:10`,
		block("store"):                     "store: want one value, at Caddyfile:10",
		block("store a b"):                 "store: want one value, at Caddyfile:10",
		block("store a", "store b"):        "store: got it twice, at Caddyfile:11",
		block("store http://127.0.0.1:1"):  "store: ",
		block("store redis://127.0.0.1:1"): "127.0.0.1:1",
		"weir {\n\tfile FILE.missing\n\t}": "weir.yaml.missing",
	} {
		if err := s.load(directive); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: load = %v, want an error with %s", directive, err, want)
		}
	}
}

// TestJSON checks the configuration in JSON.
func TestJSON(t *testing.T) {
	s := newSite(t)
	s.policies(fmt.Sprintf(perClient, "1/h"))
	config := func(handler string) []byte {
		return fmt.Appendf(nil, `{"admin": {"disabled": true}, "apps": {"http": {"servers": {"s": {"listen": [%q], "automatic_https": {"disable": true}, "routes": [{"handle": [%s, {"handler": "static_response", "body": "hello"}]}]}}}}}`, s.address, handler)
	}
	if err := caddy.Load(config(`{"handler": "weir"}`), true); err == nil || !strings.Contains(err.Error(), "file: got nothing, want the path of a policy file") {
		t.Errorf("load without a file = %v", err)
	}
	if err := caddy.Load(config(fmt.Sprintf(`{"handler": "weir", "file": %q, "store": "memory"}`, s.file)), true); err != nil {
		t.Fatal(err)
	}
	s.want("/", 200)
	s.want("/", 429, "Retry-After: 3")
}
