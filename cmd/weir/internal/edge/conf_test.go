package edge_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A piece of text in a printed configuration, and what is escaped in it.
var (
	piece  = regexp.MustCompile(`(?m)^    '((?:[^'\\\n]|\\\d\d\d)*)',$`)
	escape = regexp.MustCompile(`\\\d\d\d`)
)

// arguments are the texts that a configuration gives to init.
func arguments(t testing.TB, conf string) (settings, plan string) {
	t.Helper()
	_, body, _ := strings.Cut(conf, "init(table.concat{\n")
	for i, part := range strings.SplitN(body, "  }, table.concat{\n", 2) {
		var b strings.Builder
		for _, m := range piece.FindAllStringSubmatch(part, -1) {
			b.WriteString(escape.ReplaceAllStringFunc(m[1], func(s string) string {
				n, _ := strconv.Atoi(s[1:])
				return string([]byte{byte(n)})
			}))
		}
		if i == 0 {
			settings = b.String()
		} else {
			plan = b.String()
		}
	}
	return settings, plan
}

func TestConf(t *testing.T) {
	set := parse(t, "policies:\n  - { name: p, key: client.ip, limits: 5/24h }\n").Policies
	in := good()
	in.Store = "rediss+sentinel://user:p%27w@a:1,10.0.0.1,[::1]:7/main/3?server_name=s&sentinel_user=su&sentinel_password=sp"
	in.Jitter, in.Fields, in.Follow, in.Lua = 2*time.Second, httplimit.Draft08, true, "/opt/we ir/"
	in.Init, in.InitWorker = "/etc/nginx/my own.lua", "/etc/nginx/worker.lua"
	in.Client = httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, TrustUnix: true, Header: "X-Forwarded-For"}
	conf, err := edge.Conf(set, edge.Options{}, in)
	if err != nil {
		t.Fatal(err)
	}
	settings, plan := arguments(t, conf)
	if want := `{"format":1,"redis":{"hosts":["a:1","10.0.0.1:26379","[::1]:7"],"primary":"main","username":"user","password":"p'w","db":3,` +
		`"sentinel_username":"su","sentinel_password":"sp","tls":true,"verify":true,"server_name":"s"},"deadline":50000,"fields":["draft-08"],"jitter":2000000,"follow":true}`; settings != want {
		t.Errorf("the settings are\n%s, want\n%s", settings, want)
	}
	p, err := edge.Compile(set, edge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if plan != p.JSON() {
		t.Errorf("the plan is\n%s, want\n%s", plan, p.JSON())
	}
	frame := regexp.MustCompile(`(?m)(^    '.*',\n)+`).ReplaceAllString(conf, "    …\n")
	golden(t, "conf.txt", []byte(frame))
}

// TestConfStores checks the parts of a store's URL that reach nginx.
func TestConfStores(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authority(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for store, want := range map[string]struct{ redis, has, not string }{
		"redis://127.0.0.1":                  {`{"hosts":["127.0.0.1:6379"]}`, "generated from weir.yaml by", "#"},
		"redis://LocalHost:7/1":              {`{"hosts":["127.0.0.1:7"],"db":1}`, "", "resolves"},
		"redis://[::1]":                      {`{"hosts":["[::1]:6379"]}`, "", "resolves"},
		"redis://:pw@redis.internal":         {`{"hosts":["redis.internal:6379"],"password":"pw"}`, "chmod 600", "lua_ssl"},
		"redis://redis.internal":             {`{"hosts":["redis.internal:6379"]}`, "# nginx resolves redis.internal itself", "chmod"},
		"rediss://10.0.0.1":                  {`{"hosts":["10.0.0.1:6379"],"tls":true,"verify":true}`, `lua_ssl_trusted_certificate "/etc/ssl/certs/ca-certificates.crt";`, "real_ip"},
		"rediss://10.0.0.1?ca=" + ca:         {`{"hosts":["10.0.0.1:6379"],"tls":true,"verify":true}`, `lua_ssl_trusted_certificate "` + ca + `";`, "real_ip"},
		"rediss://10.0.0.1?skip_verify=true": {`{"hosts":["10.0.0.1:6379"],"tls":true}`, "", "lua_ssl"},
	} {
		in := good()
		in.Store = store
		conf, err := edge.Conf(new(policy.Set), edge.Options{}, in)
		if err != nil {
			t.Errorf("%s: %v", store, err)
			continue
		}
		settings, _ := arguments(t, conf)
		if !strings.Contains(settings, `"redis":`+want.redis+`,"deadline"`) || !strings.Contains(conf, want.has) || want.not != "#" && strings.Contains(conf, want.not) {
			t.Errorf("%s: the settings are %s in\n%.1500s\nwant %s, %q and no %q", store, settings, conf, want.redis, want.has, want.not)
		}
	}
}

// authority is a certificate in PEM.
func authority(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// hostile is text that means something to nginx, to Lua, to JSON or to a terminal.
var hostile = []string{
	`'`, `"`, `\`, `\'`, `\"`, `\\`, "\n", "\r\n", "}", "{", "}}}}", "{{{{", "]]", "[[", "--", "--[[", "]=]", "$host", "${x}", ";", "#",
	"'..os.exit()..'", "\x00", "\x1b[31m", "\x7f", "é", "漢字", "\U0001F600", "\u2028", `\065`, "</script>", "%s%d", "\t", " ", "' }) }", "\\'))} http {",
}

// TestConfHostile checks that any text of a file reaches nginx unchanged, in printable
// ASCII and in lines that nginx accepts.
func TestConfHostile(t *testing.T) {
	texts := append([]string{strings.Join(hostile, ""), strings.Repeat(strings.Join(hostile, ""), 40)}, hostile...)
	for _, text := range texts {
		p, err := policy.New(policy.Config{
			Name: "p", Key: []policy.KeyPart{{Source: policy.Header, Name: "X"}}, Limits: []weir.Limit{weir.MustLimit("1/s")}, OnDenied: policy.OnDenied{Body: "x" + text},
			Overrides: []policy.Override{{Key: []string{"k" + strings.Repeat(text, 2)[:min(900, 2*len(text))] + "k"}, Limits: []weir.Limit{weir.MustLimit("2/s")}}},
		})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		set, err := policy.NewSet(p)
		if err != nil {
			t.Fatal(err)
		}
		in := good()
		in.File = "dir/" + text
		conf, err := edge.Conf(set, edge.Options{}, in)
		if err != nil {
			if !strings.Contains(err.Error(), "UTF-8") {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		_, plan := arguments(t, conf)
		var got edge.Plan
		if err := json.Unmarshal([]byte(plan), &got); err != nil || got.Policies[0].OnDenied.Body != "x"+text {
			t.Errorf("%q arrives as %q (%v)", text, got.Policies[0].OnDenied.Body, err)
		}
		head, body, _ := strings.Cut(conf, "init_by_lua_block")
		for line := range strings.Lines(head) {
			if line[0] != '#' && line != "\n" && !strings.HasPrefix(line, "lua_") {
				t.Errorf("%q: the head has the line %q", text, line)
			}
		}
		for line := range strings.Lines(body) {
			if len(line) > 1000 || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q: the body has the line %q", text, line)
			}
		}
	}
}
