package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/cli"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/run"
	verify "github.com/floodweir/weir/flashsale/verify/cli"
)

// do runs a command line without an environment.
func do(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = cli.Run(t.Context(), args, strings.NewReader(stdin), &out, &err, func(string) string { return "" })
	return code, out.String(), err.String()
}

func TestMisuse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"nope", 2, `unknown command "nope"`},
		{"serve --nope", 2, "unknown flag --nope"},
		{"serve --dta x", 2, "serve: unknown flag --dta, did you mean --data? (see flashsale serve --help)"},
		{"serve --data", 2, "serve: --data: want DIRECTORY, got none"},
		{"serve --workers many", 2, `serve: --workers "many": want a value of the type int`},
		{"srve", 2, `unknown command "srve", did you mean serve?`},
		{"demo x", 2, "demo: want `flashsale demo`, got [\"x\"]"},
		{"payments key rotat", 2, `payments key: unknown command "rotat", did you mean rotate? (see flashsale payments key --help)`},
		{"serve --trusted-proxie 127.0.0.1", 2, "unknown flag --trusted-proxie, did you mean --trusted-proxies? (see flashsale serve --help)"},
		{"serve --paymants none", 2, "unknown flag --paymants, did you mean --payments? (see"},
		{"serve", 2, "want --data or --database, or FLASHSALE_DATABASE"},
		{"serve --data DIR --redis redis://h", 2, "and --redis: want one of them"},
		{"serve --data DIR --workers 0", 2, "--workers 0: want a value above 0"},
		{"serve --data DIR --drain -1s", 2, "--drain -1s: want a value above 0"},
		{"serve --database mysql://h --redis redis://h", 2, "--database: want a URL that begins with postgres://"},
		{"serve --redis redis://127.0.0.1:1 --secret s --payments none", 1, `database "": want postgres://…`},
		{"serve --database postgres://x --secret s --payments none", 1, `redis "": want the URL of a Redis`},
		{"serve --database postgres://x --redis nope://h --secret s --payments none", 1, "redis"},
		{"serve --data DIR --shop nowhere --payments none", 1, `shop "nowhere": want HOST:PORT`},
		{"serve --data DIR --office 0.0.0.0:0 --payments none", 1, `office "0.0.0.0:0": want a loopback address, or a token for /metrics`},
		{"serve --data DIR --workers 65 --payments none", 1, `workers "65": want 1 to 64`},
		{"serve --data DIR --secret FILE --payments none", 1, "5 bytes: want at least 32"},
		{"serve --data DIR --trusted-proxies unknown --payments none", 1, `trusted-proxies "unknown": want an address or a prefix`},
		{"serve --data DIR --layers FILE --payments none", 1, "layers"},
		{"serve --data DIR", 2, "--payments: want the URL of a payment provider, or none to sell only what is free"},
		{"serve --data DIR --payments stripe", 1, "stripe: Key: want a secret key that begins with sk_ or rk_"},
		{"serve --data DIR --mock", 2, "unknown flag --mock"},
		{"serve --data DIR --payments mock", 1, `payments "mock": want none, stripe or https://HOST/PATH of a payment provider`},
		{"serve --data DIR --payments none --payments https://h/x", 1, `payments "none": want it alone`},
		{"serve --data DIR --payments a_b=https://h/x", 1, `payments "a_b=https://h/x": want MERCHANT=URL`},
		{"serve --data DIR --payments https://h/x --payments https://h/y", 1, `payments "https://h/y": want one provider for default`},
		{"serve --data DIR --payments https://u:secret@h/x", 1, `payments "…": want none, stripe or https://HOST/PATH`},
		{"serve --data DIR --payments https://h/x --shop 127.0.0.1:0 --office 127.0.0.1:0", 1, "provider default has no key: make one with `flashsale payments key add default`"},
		{"payments key print default --data DIR", 1, "provider default has no key"},
		{"payments key rotate defualt --data DIR", 1, "provider defualt has no key: make one with `flashsale payments key add defualt`"},
		{"payments key add a_b --data DIR", 1, `provider "a_b": want default or a merchant`},
		{"payments key add default --data DIR --from FILE", 1, "secret: want whsec_ and base64 of 24 to 64 bytes"},
		{"payments key add default --database postgres://x", 1, "secret: want the file of the shop's secret"},
		{"demo --in 25h", 2, "--in 25h0m0s: want 0s to 24h"},
		{"merchant", 2, "merchant: want `flashsale merchant NAME (--data DIRECTORY | --database URL)`, got []"},
		{"demo --pay-within 0s", 2, "--pay-within 0s: want 1s to 24h"},
		{"merchant alice", 2, "want --data or --database"},
		{"merchant alice --data DIR --database postgres://h", 2, "and --database: want one of them"},
		{"migrate", 2, "want --data or --database"},
		{"front nope DIR", 2, `"nope": want gateway, asking or lua`},
		{"front lua DIR --store redis://h --admin 127.0.0.1:9090", 2, `--admin "127.0.0.1:9090": lua does not take it: want it with gateway and asking alone`},
		{"front lua DIR --store redis://h --weir 127.0.0.1:9090", 2, `--weir "127.0.0.1:9090": lua does not take it: want it with asking alone`},
		{"front gateway DIR --weir 127.0.0.1:9090", 2, `--weir "127.0.0.1:9090": gateway does not take it`},
		{"front asking DIR --admin nowhere", 1, `front: admin "nowhere": want ADDRESS:PORT`},
		{"front gateway DIR --trusted-proxies unknown", 1, `front: trusted-proxies "unknown": want an address`},
		{"front lua DIR", 1, "store: want the URL of a Redis"},
		{"front gateway DIR --listen nowhere", 1, `listen "nowhere"`},
		{"front gateway DIR --killed-sales ../s1", 1, `front: killed-sales "../s1": want 1 to 64 lower-case letters and digits`},
		{"serve --data DIR --webhook-networks unknown --payments none", 1, `webhook-networks "unknown": want an address or a prefix`},
		{"webhook add alice --data DIR", 2, "webhook add MERCHANT URL (--data DIRECTORY | --database URL)`, got [\"alice\"]"},
		{"webhook add alice http://shop.example/ --data DIR", 1, "want https, or http with a private address"},
		{"webhook rotate ep_x --data DIR", 1, `endpoint "ep_x"`},
		{"webhook rotate ep_x --keep -1s --data DIR", 2, "--keep -1s: want 0s to 720h"},
		{"webhook list", 2, "want --data or --database"},
		{"account add alice bob --data DIR", 2, "account add MERCHANT NAME ROLE (--data DIRECTORY | --database URL)`, got [\"alice\" \"bob\"]"},
		{"account role alice bob root --data DIR", 1, `role: got "root", want one of [view service manage owner]`},
		{"account add alice bob view --data DIR", 1, "account: password: 0 bytes: want 8 to 256"},
		{"account disable alice bob --data DIR", 1, `merchant "alice"`},
		{"account list alice", 2, "want --data or --database"},
		{"version extra", 2, "version: want `flashsale version`, got [\"extra\"]"},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", t.TempDir(), "FILE", file).Replace(c.args))
		code, _, stderr := do(t, "", args...)
		if code != c.code || !strings.Contains(stderr, c.want) || !strings.HasPrefix(stderr, "flashsale: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("flashsale %s: exit %d, %q, want exit %d and one line with %q", c.args, code, stderr, c.code, c.want)
		}
	}
}

// TestEnvironment checks that what a flag says counts before the environment.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"migrate", "--data", t.TempDir()}, 0, "the ledger is up to date\n"},
		{[]string{"migrate"}, 1, "flashsale: ledger: migrate: sale: unavailable: failed to connect to `user=u database=d`: 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused\n"},
		{[]string{"version"}, 0, "flashsale "},
	} {
		var out bytes.Buffer
		code := cli.Run(t.Context(), c.args, strings.NewReader(""), &out, &out, func(name string) string {
			return map[string]string{"FLASHSALE_REDIS": "redis://127.0.0.1:1", "FLASHSALE_DATABASE": "postgres://u:p@127.0.0.1:1/d"}[name]
		})
		if code != c.code || !strings.HasPrefix(out.String(), c.says) {
			t.Errorf("flashsale %v: exit %d, %q, want exit %d and %q", c.args, code, &out, c.code, c.says)
		}
	}
}

// TestPasswordsOfURLs looks for the password of a URL in what is said about it.
func TestPasswordsOfURLs(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--help"},
		{"serve", "--database", "postgres://u:hunter2@127.0.0.1:1/x", "--redis", "redis://:hunter2@127.0.0.1:1", "--secret", "/nonexistent"},
		{"migrate", "--database", "postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=1"},
		{"migrate", "--database", "postgres//u:hunter2@x"},
	} {
		var out, err bytes.Buffer
		cli.Run(t.Context(), args, strings.NewReader(""), &out, &err, func(name string) string {
			return map[string]string{"FLASHSALE_REDIS": "redis://:hunter2@h", "FLASHSALE_DATABASE": "postgres://u:hunter2@h/d"}[name]
		})
		if text := out.String() + err.String(); strings.Contains(text, "hunter2") {
			t.Errorf("flashsale %v says the password: %s", args, text)
		}
	}
}

// TestPaymentKeys checks that a key is added, printed and rotated, with two valid ones.
func TestPaymentKeys(t *testing.T) {
	data := t.TempDir()
	key := func(args ...string) string {
		t.Helper()
		code, out, stderr := do(t, "", append(append([]string{"payments", "key"}, args...), "--data", data)...)
		if code != 0 {
			t.Fatalf("%v: exit %d, %s", args, code, stderr)
		}
		return out
	}
	one := key("add", "default")
	two := key("rotate", "default")
	if got := key("print", "default"); got != two+one || one == two || !strings.HasPrefix(one, "whsec_") {
		t.Errorf("print: %q, want %q", got, two+one)
	}
	three := key("rotate", "default")
	if got := key("print", "default"); got != three+two {
		t.Errorf("after another rotation: %q, want %q", got, three+two)
	}
	key("add", "alice")
	code, out, _ := do(t, one, "payments", "key", "rotate", "alice", "--from", "-", "--data", data)
	if code != 0 || out != one {
		t.Errorf("from the standard input: exit %d, %q", code, out)
	}
	if code, _, stderr := do(t, "", "payments", "key", "add", "alice", "--data", data); code != 1 || !strings.Contains(stderr, "provider alice has a key") {
		t.Errorf("a second add: exit %d, %s", code, stderr)
	}
	raw, err := os.ReadFile(filepath.Join(data, "flashsale.db"))
	if err != nil || bytes.Contains(raw, []byte(one[6:20])) {
		t.Errorf("the file has a key in clear text (%v)", err)
	}
	if code, out, stderr := do(t, "", "payments", "retry", "all", "--data", data); code != 0 || out != "0 refunds are tried again\n" {
		t.Errorf("retry: exit %d, %q %s", code, out, stderr)
	}
}

func TestFront(t *testing.T) {
	dir := t.TempDir()
	for kind, files := range map[string]string{"gateway": "weir.yaml", "asking": "weir.yaml nginx.conf", "lua": "weir.yaml nginx.conf"} {
		to := filepath.Join(dir, kind)
		code, stdout, stderr := do(t, "", "front", kind, to, "--store", "redis://127.0.0.1:6379", "--killed-sales", "s1,s2")
		if code != 0 {
			t.Errorf("front %s: exit %d, %s", kind, code, stderr)
		}
		for _, f := range strings.Fields(files) {
			path := filepath.Join(to, f)
			if text, err := os.ReadFile(path); err != nil || len(text) == 0 || !strings.Contains(stdout, path) {
				t.Errorf("front %s: %s: %d bytes, %v; said %q", kind, f, len(text), err, stdout)
			}
		}
	}
}

func TestLedgerCommands(t *testing.T) {
	data := t.TempDir()
	if code, stdout, stderr := do(t, "", "migrate", "--data", data); code != 0 || stdout != "the ledger is up to date\n" {
		t.Errorf("migrate: exit %d, %q %q", code, stdout, stderr)
	}
	if code, stdout, stderr := do(t, "correct horse battery\n", "merchant", "alice", "--data", data); code != 0 || stdout != "merchant alice can log in\n" {
		t.Errorf("merchant: exit %d, %q %q", code, stdout, stderr)
	}
	code, stdout, stderr := do(t, "", "webhook", "add", "alice", "https://shop.example/hook", "--data", data)
	m := regexp.MustCompile(`^endpoint: (ep_\w+)\nsecret:   whsec_\S+\n$`).FindStringSubmatch(stdout)
	if code != 0 || m == nil {
		t.Fatalf("webhook add: exit %d, %q %q", code, stdout, stderr)
	}
	for _, c := range []struct{ args, want string }{
		{"rotate " + m[1], "The previous secret signs too for 24h0m0s."}, {"disable " + m[1], ""},
		{"list alice", m[1] + "  alice     merchant  0        0     https://shop.example/hook\n"}, {"enable " + m[1], ""}, {"remove " + m[1], ""},
	} {
		code, stdout, stderr := do(t, "", append(strings.Fields("webhook "+c.args), "--data", data)...)
		if code != 0 || !strings.Contains(stdout, c.want) || strings.Contains(stdout, "whsec_") != strings.HasPrefix(c.args, "rotate") {
			t.Errorf("webhook %s: exit %d, %q %q, want %q", c.args, code, stdout, stderr, c.want)
		}
	}
	if code, _, stderr := do(t, "short\n", "merchant", "bob", "--data", data); code != 1 || !strings.Contains(stderr, "bob") {
		t.Errorf("merchant with a short password: exit %d, %q", code, stderr)
	}
}

// TestDemo opens the demonstration, looks at both addresses, ends it, and audits it.
func TestDemo(t *testing.T) {
	data := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	screen, stdout := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- cli.Run(ctx, []string{"demo", "--in", "0s", "--data", data, "--shop", "127.0.0.1:0", "--office", "127.0.0.1:0"},
			strings.NewReader(""), stdout, &stderr, func(string) string { return "" })
		stdout.Close()
	}()
	text := make([]byte, 4096)
	n, err := screen.Read(text)
	if err != nil {
		t.Fatalf("%v; exit %d, %s", err, <-ended, &stderr)
	}
	urls := regexp.MustCompile(`http://\S+`).FindAllString(string(text[:n]), -1)
	if len(urls) != 2 {
		t.Fatalf("the demonstration says %q, want two addresses", text[:n])
	}
	for _, u := range urls {
		res, err := http.Get(u)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %v, %v", u, res, err)
		} else {
			res.Body.Close()
		}
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("the demonstration ends with %d: %s", code, &stderr)
	}
	var report bytes.Buffer
	if code := verify.Run(t.Context(), []string{"audit", "--data", data}, strings.NewReader(""), &report, &report, func(string) string { return "" }); code != 0 || !strings.Contains(report.String(), "no oversell") {
		t.Errorf("verify audit: exit %d, %q", code, &report)
	}
}

// TestIdentityFlags has one error for each setting of the identity of buyers that is not accepted.
func TestIdentityFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"--jwt-issuer x": `jwt-issuer "x": want --jwt-key too`,
		"--jwt-key /nonexistent --jwt-algorithm HS256 --jwt-issuer x":                                     "jwt-key: open /nonexistent",
		"--jwt-key FILE --jwt-algorithm HS256 --jwt-issuer x":                                             "key: got 5 bytes, want a secret of at least 32",
		"--jwt-key FILE --jwt-algorithm RS256 --jwt-issuer x":                                             `algorithm: got "RS256", want EdDSA, ES256 or HS256`,
		"--jwt-key FILE --jwt-algorithm HS256":                                                            "issuer: got none",
		"--oidc-client x":                                                                                 `oidc-client "x": want --oidc-issuer too`,
		"--oidc-issuer https://a.example --oidc-client x --oidc-redirect https://b.example/":              `oidc-redirect "https://b.example/": want the address of the shop with /login/callback`,
		"--oidc-issuer http://a.example --oidc-client x --oidc-redirect https://b.example/login/callback": `issuer: got "http://a.example", want an https URL`,
		"--oidc-issuer https://a.example --oidc-redirect https://b.example/login/callback":                "client: got none",
		"--turnstile-site-key x":                                                                          `FLASHSALE_TURNSTILE_SECRET "": want the secret of the widget, as turnstile-site-key "x" is given`,
		"--sign-in javascript:x":                                                                          `sign-in "javascript:x": want a URL or a path`,
	} {
		args := append([]string{"serve", "--payments", "none", "--data", t.TempDir()}, strings.Fields(strings.ReplaceAll(flags, "FILE", file))...)
		code, _, stderr := do(t, "", args...)
		if code != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("serve %s: exit %d, %q, want exit 1 and one line with %q", flags, code, stderr, want)
		}
	}
}

// TestUnmatchedPayments lists money for no known order.
func TestUnmatchedPayments(t *testing.T) {
	dir := t.TempDir()
	if code, stdout, stderr := do(t, "", "payments", "unmatched", "--data", dir); code != 0 || stdout != "" {
		t.Errorf("without any: exit %d, %q, %q, want nothing", code, stdout, stderr)
	}
	l, err := run.OpenLedger(t.Context(), run.Config{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2031, 5, 1, 10, 0, 0, 0, time.UTC)
	_, err = l.RecordEvent(t.Context(), "default", payments.Event{Ref: "pi_1:2", Receipt: "order-1", Kind: payments.Paid, Amount: 9900, Currency: "CNY", At: at}, at)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	const want = "RECEIVED              PROVIDER  REF     KIND  ORDER    AMOUNT  CURRENCY\n" +
		"2031-05-01T10:00:00Z  default   pi_1:2  paid  order-1  9900    CNY\n"
	if code, stdout, stderr := do(t, "", "payments", "unmatched", "--data", dir); code != 0 || stdout != want {
		t.Errorf("exit %d, %q, %q, want\n%s", code, stdout, stderr, want)
	}
}

// TestAccounts manages the accounts of a merchant.
func TestAccounts(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"merchant alice", 0, "merchant alice can log in\n", ""},
		{"account add alice bob view", 0, "account bob of alice: view\n", ""},
		{"account add alice bob view", 1, "", "has the name \"bob\" already"},
		{"account role alice bob owner", 0, "account bob of alice: owner\n", ""},
		{"account disable alice alice", 0, "account alice of alice: owner, disabled\n", ""},
		{"account role alice bob view", 1, "", "bob is the last owner"},
		{"account enable alice alice", 0, "account alice of alice: owner\n", ""},
		{"account password alice bob", 0, "account bob of alice: owner\n", ""},
		{"account list alice", 0, "ACCOUNT  ROLE   DISABLED\nalice    owner  false\nbob      owner  false\n", ""},
		{"account password carol bob", 1, "", "merchant \"carol\""},
	} {
		code, stdout, stderr := do(t, "correct horse\n", append(strings.Fields(c.args), "--data", dir)...)
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
			t.Errorf("flashsale %s: exit %d, %q, %q; want exit %d, %q, %q", c.args, code, stdout, stderr, c.code, c.stdout, c.stderr)
		}
	}
}
