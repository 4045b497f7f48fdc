package front_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/weirfile"
)

func config() front.Config {
	return front.Config{Listen: "127.0.0.1:8000", Shops: []string{"127.0.0.1:8088"}, Weir: "127.0.0.1:8080", Store: "redis://127.0.0.1:6379",
		Trusted: []string{"127.0.0.1", "10.0.0.0/8"}}
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
		"gateway": {gateway, "killed address flood pages user one-order sale"},
		"asking":  {asking, "killed address flood pages user sale"},
		"lua":     {lua, "killed address flood pages user one-order sale"},
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

// TestShops divides buyers among the processes of a shop, in nginx alone.
func TestShops(t *testing.T) {
	c := config()
	c.Shops = append(c.Shops, "127.0.0.1:8098")
	asking, _, err := c.AuthRequest()
	lua, _, err2 := c.Lua()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, text := range []string{asking, lua} {
		if !strings.Contains(text, "    server 127.0.0.1:8088;\n    server 127.0.0.1:8098;\n    keepalive") {
			t.Errorf("want both processes in the upstream:\n%s", text)
		}
	}
	if _, err := c.Gateway(); err == nil || !strings.Contains(err.Error(), `shop "127.0.0.1:8088,127.0.0.1:8098": want one`) {
		t.Errorf("Gateway with two processes: %v", err)
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

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*front.Config)
		want   string
	}{
		{"no address", func(c *front.Config) { c.Listen = "" }, `listen ""`},
		{"a name", func(c *front.Config) { c.Shops[0] = "shop.example:80" }, `shop "shop.example:80"`},
		{"no shop", func(c *front.Config) { c.Shops = nil }, `shop "": want one ADDRESS:PORT`},
		{"more of a configuration", func(c *front.Config) { c.Shops[0] = "127.0.0.1:80; return 200" }, "shop"},
		{"another directive", func(c *front.Config) { c.Trusted = []string{"127.0.0.1; deny all"} }, `trusted-proxies "127.0.0.1; deny all"`},
		{"a path", func(c *front.Config) { c.KilledSales = []string{"s1", "../s1"} }, `killed-sales "../s1"`},
		{"a quote", func(c *front.Config) { c.KilledSales = []string{`s"1`} }, "killed-sales"},
		{"a limit of sales that is none", func(c *front.Config) { c.Tickets = "many" }, `tickets "many"`},
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
