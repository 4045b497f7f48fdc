package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/run"
)

// TestFaultsMakeNothing checks that every error names its setting, and that no directory is
// created.
func TestFaultsMakeNothing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	short, broken, none := file("short", "short"), file("broken.yaml", "policies: []\n"), filepath.Join(dir, "none")
	unnamed := file("unnamed.yaml", strings.ReplaceAll(string(layers.Default()), "Flashsale-Layer: L1", "Flashsale-Layer: L9"))
	taken := strings.TrimPrefix(start(t, run.Config{Data: t.TempDir()}).OfficeURL, "http://")
	for _, c := range []struct {
		change func(*run.Config)
		want   string
	}{
		{func(c *run.Config) { c.OldSecret = short }, "run: old-secret " + short + ": 5 bytes: want at least 32"},
		{func(c *run.Config) { c.OldSecret = none }, "run: old-secret: open " + none},
		{func(c *run.Config) { c.Secret = short }, "run: secret " + short + ": 5 bytes: want at least 32"},
		{func(c *run.Config) { c.Layers = none }, "run: layers: open " + none},
		{func(c *run.Config) { c.Layers = broken }, "run: layers: " + broken + ":1:11: policies: an empty list"},
		{func(c *run.Config) { c.Layers = unnamed }, "run: layers " + unnamed + ": layers: policy "},
		{func(c *run.Config) { c.Shop = taken }, "run: shop " + taken + ": listen tcp"},
		{func(c *run.Config) { c.Shop, c.Office = "127.0.0.1:1x", taken }, "run: shop 127.0.0.1:1x: listen tcp"},
		{func(c *run.Config) { c.Office = taken }, "run: office " + taken + ": listen tcp"},
		{func(c *run.Config) { c.TrustedProxies = []string{"unknown"} }, `run: trusted-proxies "unknown": want an address`},
		{func(c *run.Config) { c.Name = strings.Repeat("a", 57) }, `": want 1 to 56 letters, digits, . _ -`},
		{func(c *run.Config) { c.Captcha.Secret = "hunter2" }, `run: turnstile-site-key "": want the key of the widget whose secret FLASHSALE_TURNSTILE_SECRET is`},
		{func(c *run.Config) { c.Captcha.SiteKey = "key" }, `run: FLASHSALE_TURNSTILE_SECRET "": want the secret of the widget, as turnstile-site-key "key" is given`},
		{func(c *run.Config) { c.Captcha.Script = "/own.js" }, `run: captcha script "/own.js": want a Challenge`},
		{func(c *run.Config) { c.Captcha.Script, c.Challenge = "own.js", oneToken{} }, `run: captcha script "own.js": want https://HOST/PATH or /PATH`},
		{func(c *run.Config) { c.Captcha.SiteKey, c.Captcha.Secret, c.Challenge = "key", "hunter2", oneToken{} }, "run: FLASHSALE_TURNSTILE_SECRET: want either it or Challenge"},
		{func(c *run.Config) { c.Captcha.Siteverify = "https://a.example" }, `run: siteverify "https://a.example": want FLASHSALE_TURNSTILE_SECRET too`},
		{func(c *run.Config) { c.Captcha = run.Captcha{SiteKey: "key", Secret: "s", Siteverify: "ftp://x"} }, `run: captcha: TurnstileConfig.URL: got "ftp://x"`},
		{func(c *run.Config) { c.Name = "a b" }, `run: name "a b": want 1 to 56 letters, digits, . _ -`},
	} {
		cfg := run.Config{Data: filepath.Join(t.TempDir(), "data"), Shop: "127.0.0.1:0", Office: "127.0.0.1:0"}
		c.change(&cfg)
		s, err := run.Start(t.Context(), cfg)
		if err == nil {
			s.Stop()
			t.Errorf("started, want %s", c.want)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v\nwant %s", err, c.want)
		}
		if _, err := os.Stat(cfg.Data); !os.IsNotExist(err) {
			t.Errorf("%s: the directory was made (%v)", c.want, err)
		}
	}
}

// TestMerchantFaultsMakeNothing checks that who mistypes a password has no directory to throw away.
func TestMerchantFaultsMakeNothing(t *testing.T) {
	for _, c := range []struct{ name, password, want string }{
		{"alice", "short", `merchant "alice": account: password: 5 bytes: want 8 to 256`},
		{"alice", "", `merchant "alice": account: password: 0 bytes`},
		{"", "correct horse", `merchant "": want a name of 1 to 128 bytes`},
		{"a\nb", "correct horse", `merchant "a\nb": want a name of 1 to 128 bytes`},
		{strings.Repeat("a", 129), "correct horse", "want a name of 1 to 128 bytes"},
		{"\xff", "correct horse", `merchant "\xff": want a name`},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := run.AddMerchant(t.Context(), run.Config{Data: dir}, c.name, c.password); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("AddMerchant(%q, %q) = %v, want %s", c.name, c.password, err, c.want)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("AddMerchant(%q, %q) made the directory (%v)", c.name, c.password, err)
		}
	}
}

// TestNames checks that the longest name is one, and a secret that is elsewhere needs none in the directory.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "elsewhere")
	if err := os.WriteFile(secret, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	start(t, run.Config{Data: data, Name: strings.Repeat("a", 56), Secret: secret})
	if _, err := os.Stat(filepath.Join(data, "secret")); !os.IsNotExist(err) {
		t.Errorf("a second secret: %v, want none", err)
	}
}
