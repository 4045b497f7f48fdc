package operate_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/cmd/weir/internal/operate"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

const file = `policies:
  - { name: login, key: client.ip, limits: 2/h }
  - { name: tenants, key: ['header:X-Tenant', client.ip], limits: 5/m }
`

// A server has the endpoints, with adjustments and an audit log in the process.
type server struct {
	*http.ServeMux
	policies *policy.Set
	names    *keyid.Names
}

func serve(t *testing.T) *server {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	names := keyid.New()
	entries, err := audit.New(audit.Config{Log: log, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{ServeMux: http.NewServeMux(), names: names}
	s.use(t, file)
	o := operate.New(operate.Config{
		Store: store, Policies: func() *policy.Set { return s.policies }, Audit: entries, Names: names,
		Adjustments: adjustment.New(adjustment.Config{Audit: entries, Changed: func() {}, Log: log}),
		NotAdjusting: func(_ context.Context, nginx bool) []string {
			if nginx {
				return []string{"shop (h:1)", "nginx (h:2)"}
			}
			return []string{"shop (h:1)"}
		},
		Resolve: func(_ context.Context, _, id string) (string, bool) {
			const key = "login|13:203.0.113.250"
			return key, id == names.ID(key)
		},
	})
	s.HandleFunc("POST /v1/key", o.Show)
	s.HandleFunc("POST /v1/key/{action}", o.Act)
	s.HandleFunc("GET /v1/adjustments", o.List)
	s.HandleFunc("GET /v1/audit", o.Entries)
	return s
}

// use puts the policies of a file into force.
func (s *server) use(t *testing.T, text string) {
	t.Helper()
	f, err := weirfile.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s.policies = f.Policies
}

// send sends a request in a role.
func (s *server) send(role access.Role, method, path, body string, header ...string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(access.WithActor(r.Context(), access.Actor{Name: "mei", Role: role, Via: "http"})))
	return w.Code, w.Body.String()
}

// TestReadSeesNoKey checks that the role read sees no plain key in any response, also not in what
// operators wrote, and that the role operate does.
func TestReadSeesNoKey(t *testing.T) {
	s := serve(t)
	keys := []string{"203.0.113.9", "198.51.100.7", "Acme-Corp"}
	for _, step := range []struct{ action, body string }{
		{"freeze", `{"policy":"login","key":["203.0.113.9"],"reason":"attack by 203.0.113.9"}`},
		{"block", `{"policy":"login","key":["203.0.113.9"],"reason":"again 203.0.113.9","for":"1h"}`},
		{"raise", `{"policy":"tenants","key":["Acme-Corp","198.51.100.7"],"reason":"acme-corp asked from 198.51.100.7","limits":["100/m"],"for":"1h"}`},
		{"credit", `{"policy":"login","key":["198.51.100.7"],"reason":"for 198.51.100.7","tokens":1}`},
	} {
		if code, got := s.send(access.Operate, "POST", "/v1/key/"+step.action, step.body); code != 200 {
			t.Fatalf("%s = %d %s", step.action, code, got)
		} else if strings.Contains(got, `"not_applied_by":["shop (h:1)"]`) == (step.action == "credit") {
			t.Errorf("%s = %s, want the programs that do not apply an adjustment", step.action, got)
		}
	}
	of := []string{"login|11:203.0.113.9", "tenants|9:Acme-Corp|12:198.51.100.7", "login|12:198.51.100.7"}
	login, tenants := s.names.ID(of[0]), s.names.ID(of[1])
	check := func(t *testing.T, operate int) {
		for _, tc := range []struct {
			name, method, path, body, accept string
			operate                          int // status of the role operate, which then sees a key; 0 if it does not
		}{
			{"state by id", "POST", "/v1/key", `{"policy":"login","id":"` + login + `"}`, "", 200},
			{"state of two parts by id", "POST", "/v1/key", `{"policy":"tenants","id":"` + tenants + `"}`, "", operate},
			{"adjustments", "GET", "/v1/adjustments", "", "", 200},
			{"audit", "GET", "/v1/audit", "", "", 200},
			{"audit of a key", "GET", "/v1/audit?key_id=" + login, "", "", 200},
			{"export", "GET", "/v1/audit", "", "application/x-ndjson", 200},
		} {
			t.Run(tc.name, func(t *testing.T) {
				code, got := s.send(access.Read, tc.method, tc.path, tc.body, "Accept", tc.accept)
				for _, key := range of {
					if hash := policy.KeyID(key); strings.Contains(got, hash) {
						t.Errorf("read sees %s, which it can compute from %s: %d %s", hash, key, code, got)
					}
				}
				for _, key := range keys {
					if strings.Contains(strings.ToLower(got), strings.ToLower(key)) {
						t.Errorf("read sees %s: %d %s", key, code, got)
					}
				}
				if tc.operate == 200 && !strings.Contains(got, login) && !strings.Contains(got, tenants) {
					t.Errorf("read sees no id: %d %s", code, got)
				}
				code, got = s.send(access.Operate, tc.method, tc.path, tc.body, "Accept", tc.accept)
				if code != tc.operate || code == 200 && !strings.Contains(got, `"key":["`) {
					t.Errorf("operate sees no key: %d %s", code, got)
				}
			})
		}
	}
	t.Run("policies as before", func(t *testing.T) { check(t, 200) })
	// The errors of the adjustments that no longer fit may quote values.
	s.use(t, strings.NewReplacer("['header:X-Tenant', client.ip]", "[client.ip]").Replace(file))
	t.Run("policies changed", func(t *testing.T) { check(t, 400) })
	s.use(t, strings.NewReplacer("['header:X-Tenant', client.ip]", "[client.ip, 'header:X-Tenant']").Replace(file))
	t.Run("parts swapped", func(t *testing.T) { check(t, 400) })
}

// TestReadAsksByID checks that the role read cannot find out the ID of a key by guessing the key.
func TestReadAsksByID(t *testing.T) {
	s := serve(t)
	if code, got := s.send(access.Operate, "POST", "/v1/key/freeze", `{"policy":"login","key":["203.0.113.9"],"reason":"attack"}`); code != 200 {
		t.Fatalf("freeze = %d %s", code, got)
	}
	const key = "login|11:203.0.113.9"
	for body, want := range map[string][2]int{ // of read and of operate
		`{"policy":"login","key":["203.0.113.9"]}`:                      {403, 200},
		`{"key":["203.0.113.9"]}`:                                       {403, 200},
		`{"policy":"login","id":"` + policy.KeyID(key) + `"}`:           {400, 400},
		`{"policy":"login","id":"` + keyid.New().ID(key) + `"}`:         {400, 400},
		`{"policy":"login","id":"` + s.names.ID(key) + `"}`:             {200, 200},
		`{"policy":"login","id":"` + s.names.ID("x|9:127.0.0.1") + `"}`: {400, 400},
	} {
		for i, role := range []access.Role{access.Read, access.Operate} {
			if code, got := s.send(role, "POST", "/v1/key", body); code != want[i] || code == 200 && !strings.Contains(got, `"kind":"freeze"`) {
				t.Errorf("%s as %s = %d %s, want %d", body, role, code, got, want[i])
			}
		}
	}
	for id, want := range map[string]bool{policy.KeyID(key): false, s.names.ID(key): true} {
		if code, got := s.send(access.Read, "GET", "/v1/audit?key_id="+id, ""); code != 200 || strings.Contains(got, `"action":"freeze"`) != want {
			t.Errorf("audit log of %s = %d %s, want the entry: %t", id, code, got, want)
		}
	}
}
