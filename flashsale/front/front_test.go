package front_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/weirfile"
)

func config() front.Config {
	return front.Config{Listen: "127.0.0.1:8000", Shop: "127.0.0.1:8088", Weir: "127.0.0.1:8080", Store: "redis://127.0.0.1:6379",
		Trusted: []string{"127.0.0.1", "10.0.0.0/8"},
		Sales: []front.Sale{
			{ID: "s1", Tokens: 3000, Period: 15 * time.Minute, StartsAt: time.Unix(1_800_000_000, 0), Check: true},
			{ID: "s2", Tokens: 10, Period: 90 * time.Second, Killed: true},
		}}
}

// Every file is one that Weir accepts, and has the policies that it should.
func TestFilesAreGood(t *testing.T) {
	c := config()
	gateway, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	_, asking, err := c.AuthRequest()
	if err != nil {
		t.Fatal(err)
	}
	_, lua, err := c.Lua()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"gateway": {gateway, "killed-s2 address pages user one-order tickets-s1 tokens-s1 tickets-s2"},
		"asking":  {asking, "killed-s2 address pages user tickets-s1 tokens-s1 tickets-s2"},
		"lua":     {lua, "killed-s2 address pages user one-order tickets-s1 tokens-s1 tickets-s2"},
	} {
		f, err := weirfile.Parse(name, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, c.text)
			continue
		}
		var got []string
		for _, p := range f.Policies.Policies() {
			got = append(got, p.Name())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s has the policies %v, want %s", name, got, c.want)
		}
	}
}

// Nothing that buyers reach is answered by a return or a rewrite: these come before every
// limit. They stand in places that only nginx itself goes to.
func TestNoReturnBeforeTheLimits(t *testing.T) {
	c := config()
	asking, _, err := c.AuthRequest()
	if err != nil {
		t.Fatal(err)
	}
	lua, _, err := c.Lua()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"asking": asking, "lua": lua} {
		where, inner := "server", ""
		for i, line := range strings.Split(text, "\n") {
			if l, ok := strings.CutPrefix(strings.TrimSpace(line), "location "); ok {
				where, inner = strings.TrimSuffix(l, " {"), ""
			}
			inner += line
			for _, word := range []string{"return ", "rewrite ", "try_files "} {
				at := strings.Index(line, word)
				if at < 0 || strings.Contains(line[:at], "#") {
					continue
				}
				if !strings.HasPrefix(where, "@") || !strings.Contains(inner, "internal;") {
					t.Errorf("%s, line %d, in %s: %s", name, i+1, where, strings.TrimSpace(line))
				}
			}
		}
		if strings.Count(text, "location / {") != 1 {
			t.Errorf("%s has other places than one:\n%s", name, text)
		}
	}
}

// A token of the sale begins as the front expects, and one of another does not.
func TestTokenBegins(t *testing.T) {
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s1", "demo", "0192abcdef0192abcdef0192abcdef01", strings.Repeat("z", 64)} {
		token := keys.Token(pass.Token{Sale: id, Epoch: 3, User: "u", Ticket: "0123456789abcdef", Batch: "b", Until: time.Unix(1e9, 0)})
		other := keys.Token(pass.Token{Sale: "x" + id[1:], Epoch: 3, User: "u", Ticket: "0123456789abcdef", Batch: "b", Until: time.Unix(1e9, 0)})
		begins := front.Sale{ID: id}.TokenPrefix()
		if !strings.HasPrefix(token, begins) || strings.HasPrefix(other, begins) || len(token) < 60 || len(token) > 1024 {
			t.Errorf("tokens of %s begin with %q: %q, and not %q", id, begins, token, other)
		}
	}
}

func TestSinceIsFromTheStartOn(t *testing.T) {
	for _, start := range []int64{1_000_000_000, 1_799_999_999, 1_800_000_000, 1_899_909_990, 9_999_999_999} {
		re := regexp.MustCompile("^" + front.Sale{StartsAt: time.Unix(start, 0)}.ElapsedPattern())
		for _, d := range []int64{-1_000_000_000, -100_000, -1000, -10, -2, -1, 0, 1, 2, 9, 10, 11, 99, 1000, 12345, 1_000_000, 90_000_000} {
			at := start + d
			if at < 1_000_000_000 {
				continue
			}
			if got := re.MatchString(fmt.Sprintf("%d.123", at)); got != (d >= 0) {
				t.Errorf("%d since %d = %v", at, start, got)
			}
		}
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*front.Config)
		want   string
	}{
		{"no address", func(c *front.Config) { c.Listen = "" }, `listen ""`},
		{"a name", func(c *front.Config) { c.Shop = "shop.example:80" }, `shop "shop.example:80"`},
		{"more of a configuration", func(c *front.Config) { c.Shop = "127.0.0.1:80; return 200" }, "shop"},
		{"another directive", func(c *front.Config) { c.Trusted = []string{"127.0.0.1; deny all"} }, `trusted-proxies "127.0.0.1; deny all"`},
		{"a path", func(c *front.Config) { c.Sales[0].ID = "../s1" }, "sales[0].id"},
		{"a quote", func(c *front.Config) { c.Sales[0].ID = `s"1` }, "sales[0].id"},
		{"twice", func(c *front.Config) { c.Sales[0].ID = "s2" }, "sales[1].id"},
		{"no tokens", func(c *front.Config) { c.Sales[1].Tokens = 0 }, "sales[1].tokens"},
		{"no period", func(c *front.Config) { c.Sales[1].Period = 0 }, "sales[1].period"},
		{"a limit that is none", func(c *front.Config) { c.Address = "20/s burst 40\n- name: x" }, "address"},
		{"no Redis", func(c *front.Config) { c.Store = "memory" }, "store"},
		{"a place for metrics that Lua has not", func(c *front.Config) { c.Admin = "127.0.0.1:9090" }, `admin "127.0.0.1:9090": want none`},
		{"no port", func(c *front.Config) { c.Weir = "127.0.0.1" }, "weir"},
		{"a password", func(c *front.Config) { c.Store = "redis://user:secret%zz@h" }, "store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := config()
			c.change(&f)
			_, _, asking := f.AuthRequest()
			_, _, lua := f.Lua()
			err := fmt.Sprint(asking, lua)
			if !strings.Contains(err, "front: ") || !strings.Contains(err, c.want) || strings.Contains(err, "secret") {
				t.Errorf("%s\nwant a word about %s", err, c.want)
			}
		})
	}
}
