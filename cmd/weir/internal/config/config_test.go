package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const policies = "\npolicies:\n  - { name: p, key: [client.ip], limits: [1/s] }\n"

func TestDefaults(t *testing.T) {
	c, err := config.Load(config.Source{Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Demo() || c.Store != "memory" || c.Gateway.Listen != "127.0.0.1:8000" || c.HTTP.Listen != "127.0.0.1:8080" ||
		c.Drain != 10*time.Second || c.DrainDelay != 0 || c.Log.Format != "text" || c.Gateway.AccessLog != 0 || c.Gateway.RequestID {
		t.Errorf("defaults = %+v", c)
	}
	if n := len(c.Policies.Policies()); n != 3 {
		t.Errorf("the demo has %d policies, want 3", n)
	}
}

// TestPrecedence checks that every setting can be given by its flag and by its variable;
// the flag wins, then the variable, then the file.
func TestPrecedence(t *testing.T) {
	path := file(t, "store: redis://file:1\nhttp: { listen: ':1' }\ngateway: { listen: ':2' }"+policies)
	for _, test := range []struct {
		flag, env   string
		store, http string
	}{
		{"", "", "redis://file:1", ":1"},
		{"", "redis://env:1", "redis://env:1", ":1"},
		{"redis://flag:1", "redis://env:1", "redis://flag:1", ":1"},
		{"redis://flag:1", "", "redis://flag:1", ":1"},
	} {
		s := config.Source{File: path, Flags: map[string]string{}, Env: env("WEIR_STORE", test.env)}
		if test.flag != "" {
			s.Flags["store"] = test.flag
		}
		c, err := config.Load(s)
		if err != nil {
			t.Fatal(err)
		}
		if c.Store != test.store || c.HTTP.Listen != test.http || c.Gateway.Listen != ":2" {
			t.Errorf("flag %q, env %q: store %q, http %q", test.flag, test.env, c.Store, c.HTTP.Listen)
		}
	}
	token := file(t, "correct-horse-battery\n")
	good := map[string]string{
		"region":      "", // TestRegion
		"listen-grpc": ":0", "listen-resp": "[::1]:6380", "listen-admin": "off", "policies": "file", "watch": "false",
		"deadline": "1s", "nodes": "3", "grpc-config": "ratelimit", "grpc-tls-cert": "", "grpc-tls-key": "", "grpc-client-ca": "", "grpc-anonymous": "true",
		"resp-tls-cert": "", "resp-tls-key": "", "resp-client-ca": "", "admin-tls-cert": "", "admin-tls-key": "", "admin-client-ca": "",
		"start-degraded": "true", "http-token-file": token, "http-tls-cert": "", "http-tls-key": "", "http-client-ca": "", "http-serve": "auth", "http-hosts": "weir.internal, b",
		"resp-password-file": token, "admin-token-file": token, "log-decisions": "1000", "log-denials": "1", "log-keys": "plain",
		"store": "redis+cluster://a:1,b:2", "snapshot": "", "listen-gateway": "off", "listen-http": "[::1]:0", "max-connections": "100",
		"tls-cert": "", "tls-key": "", "request-id": "true", "access-log": "7", "drain": "1m", "drain-delay": "5s", "log": "json", "log-level": "debug",
	}
	for _, s := range config.Settings() {
		value, ok := good[s.Name]
		if !ok {
			t.Errorf("no test of --%s", s.Name)
		}
		if _, err := config.Load(config.Source{Env: env(s.Env(), value)}); err != nil {
			t.Errorf("%s=%s: %v", s.Env(), value, err)
		}
	}
}

// TestRegion checks where the region of a process comes from, and its store.
func TestRegion(t *testing.T) {
	const members = `members: [{ name: eu, part: 50, store: "redis://eu:1" }, { name: us, part: 50 }]`
	here := file(t, "store: redis://file:1\nregions: { here: us, "+members+" }"+strings.ReplaceAll(policies, "1/s", "9/s"))
	open := file(t, "store: redis://file:1\nregions: { "+members+" }"+strings.ReplaceAll(policies, "1/s", "9/s"))
	for _, c := range []struct {
		file, flag, env, store string
		any                    bool
		want                   string // region, its store, or the error
	}{
		{here, "", "", "", false, "us redis://file:1"},
		{here, "", "eu", "", false, "eu redis://eu:1"},
		{open, "us", "eu", "", false, "us redis://file:1"},
		{open, "eu", "", "redis://flag:1", false, "eu redis://flag:1"},
		{open, "", "", "", true, "eu redis://eu:1"},
		{open, "", "", "", false, `--region "": want the region of this process: one of eu, us`},
		{open, "ap", "", "", false, `--region "ap": want the region of this process: one of eu, us`},
		{file(t, policies), "eu", "", "", false, `--region "eu": want none, or regions in the file`},
	} {
		s := config.Source{File: c.file, Flags: map[string]string{}, Env: env("WEIR_REGION", c.env), AnyRegion: c.any}
		if c.flag != "" {
			s.Flags["region"] = c.flag
		}
		if c.store != "" {
			s.Flags["store"] = c.store
		}
		got, err := config.Load(s)
		if err != nil {
			if err.Error() != c.want {
				t.Errorf("flag %q, env %q: %v, want %s", c.flag, c.env, err, c.want)
			}
			continue
		}
		if text := got.Region.Name + " " + got.Store; text != c.want || got.Regions == nil {
			t.Errorf("flag %q, env %q: %s, want %s", c.flag, c.env, text, c.want)
		}
	}
	quota := file(t, "regions: { here: us, "+members+" }\ngrpc: { config: x, quota_service: { domains: edge } }")
	if _, err := config.Load(config.Source{File: quota, Env: env()}); err == nil || !strings.Contains(err.Error(), "grpc.quota_service: want none with regions") {
		t.Errorf("a quota service with regions: %v", err)
	}
}

func TestBadSettings(t *testing.T) {
	for name, values := range map[string][]string{
		"store":           {"disk", "redis://", "redis:h", "http://h"},
		"listen-http":     {"8080", "h:port", "h:70000", "h:-1", "on"},
		"request-id":      {"yes"},
		"access-log":      {"-1", "1.5", "99999999999"},
		"drain":           {"10", "-1s", "long"},
		"log":             {"TEXT"},
		"log-level":       {"loud"},
		"deadline":        {"0s", "50", "2m"},
		"max-connections": {"-1", "many"},

		"nodes":      {"0", "-1", "100001", "many"},
		"policies":   {"redis"},
		"log-keys":   {"all"},
		"http-serve": {"take", "Auth"},
		"http-hosts": {"a:1", "a,,b", "http://a"},

		"start-degraded": {"yes", "1"},
		"grpc-anonymous": {"yes"},

		"admin-token-file":   {"/nowhere", os.DevNull, file(t, "two words"), file(t, "\n"), file(t, strings.Repeat("x", 5000))},
		"resp-password-file": {t.TempDir()},
	} {
		for _, v := range values {
			_, err := config.Load(config.Source{Flags: map[string]string{name: v}, Env: env()})
			if err == nil || !strings.HasPrefix(err.Error(), "--"+name+" \""+v+"\": want ") {
				t.Errorf("--%s %s: %v, want an error that names both and says what is wanted", name, v, err)
			}
		}
	}
}

// TestTogether checks that what contradicts something else is said with both names.
func TestTogether(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"policies", "store"}, "--policies store: want the --store of a Redis"},
		{[]string{"grpc-tls-cert", "c"}, "--grpc-tls-cert and --grpc-tls-key: want both or neither"},
		{[]string{"grpc-client-ca", "c"}, "--grpc-client-ca: want --grpc-tls-cert"},
		{[]string{"http-tls-key", "c"}, "--http-tls-cert and --http-tls-key: want both or neither"},
		{[]string{"resp-tls-key", "c"}, "--resp-tls-cert and --resp-tls-key: want both or neither"},
		{[]string{"admin-client-ca", "c"}, "--admin-client-ca: want --admin-tls-cert"},
		{[]string{"http-client-ca", "c"}, "--http-client-ca: want --http-tls-cert"},
		{[]string{"listen-admin", "127.0.0.1:8080"}, "--listen-http and --listen-admin: both are 127.0.0.1:8080"},
		{[]string{"listen-gateway", "off", "listen-http", "off", "listen-grpc", "off", "listen-resp", "off"}, "got --listen-gateway off, --listen-http off, --listen-grpc off, --listen-resp off; want at least one"},
	} {
		flags := map[string]string{}
		for i := 0; i < len(test.flags); i += 2 {
			flags[test.flags[i]] = test.flags[i+1]
		}
		if _, err := config.Load(config.Source{Flags: flags, Env: env()}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.flags, err, test.want)
		}
	}
}

// TestNothingListens checks interfaces that do not listen without their configuration.
func TestNothingListens(t *testing.T) {
	name := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(name, []byte("policies:\n  - { name: a, key: client.ip, limits: 1/s }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	off := map[string]string{"listen-http": "off", "listen-resp": "off"}
	_, err := config.Load(config.Source{File: name, Flags: off, Env: env()})
	want := "nothing would decide requests: got --listen-gateway without gateway.routes, --listen-http off, --listen-grpc without --grpc-config, --listen-resp off; want at least one of them"
	if err == nil || err.Error() != want {
		t.Errorf("only the gateway without routes and gRPC without policies: %v, want %s", err, want)
	}
	off["grpc-config"] = "ratelimit"
	if _, err := config.Load(config.Source{File: name, Flags: off, Env: env()}); err != nil {
		t.Errorf("gRPC with policies: %v", err)
	}
	delete(off, "grpc-config")
	if _, err := config.Load(config.Source{Flags: off, Env: env()}); err != nil {
		t.Errorf("the demo: %v", err)
	}
}

func TestSecrets(t *testing.T) {
	path := file(t, "correct-horse-battery\r\n")
	c, err := config.Load(config.Source{Env: env("WEIR_ADMIN_TOKEN_FILE", path, "WEIR_RESP_PASSWORD_FILE", path)})
	if err != nil || c.Admin.Token != "correct-horse-battery" || c.RESP.Password != c.Admin.Token {
		t.Errorf("the secrets are %q and %q, %v", c.Admin.Token, c.RESP.Password, err)
	}
}

func TestServer(t *testing.T) {
	for _, test := range []struct{ flag, env, want string }{
		{"", "", config.DefaultServer}, {"", "http://e:1", "http://e:1"}, {"https://f:1/base", "http://e:1", "https://f:1/base"},
		{"f:1", "", ""}, {"", "ftp://e", ""},
	} {
		u, err := config.Server(test.flag, env("WEIR_SERVER", test.env))
		if test.want == "" {
			if err == nil {
				t.Errorf("Server(%q, %q) = %v, want an error", test.flag, test.env, u)
			}
		} else if err != nil || u.String() != test.want {
			t.Errorf("Server(%q, %q) = %v, %v, want %s", test.flag, test.env, u, err, test.want)
		}
	}
}

func TestRedacted(t *testing.T) {
	for in, want := range map[string]string{
		"memory": "memory", "redis://h:1": "redis://h:1", "redis://u:p@h:1/0": "redis://u:xxxxx@h:1/0",
		"redis+sentinel://h/p?sentinel_password=p": "redis+sentinel://h/p?xxxxx",
		"redis://:p@ss@h":                          "redis://:xxxxx@h", "redis+cluster://u:p@a:1,b:2": "redis+cluster://u:xxxxx@a:1,b:2",
	} {
		if got := config.Redacted(in); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", in, got, want)
		}
	}
}
