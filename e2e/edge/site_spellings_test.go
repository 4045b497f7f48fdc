package edge_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
)

// TestSitePathSpellings checks that policies see the same path and query values as nginx,
// however they are spelled. nginx responds with its own view, and Lua with that of the
// policies.
func TestSitePathSpellings(t *testing.T) {
	t.Parallel()
	t.Run("as it comes", func(t *testing.T) { testSitePathSpellings(t, "") })
	t.Run("slashes", func(t *testing.T) { testSitePathSpellings(t, "merge_slashes off;") })
}

func testSitePathSpellings(t *testing.T, directives string) {
	s := nginxtest.Start(t, nginxtest.Config{HTTP: nginxtest.Path(t) + directives + `
  server { listen ADDR; location / { content_by_lua_block {
    local request = require("weir.attributes").new()
    local fits = require("weir.path")
    local pattern = { segments = { "p", "login" } }
    fits.prepare(pattern)
    local matches = "no"
    for _, variant in ipairs(request:paths()) do
      if fits.matches(pattern, variant) then matches = "yes" end
    end
    local key = request:query("k")
    ngx.header["X-Matches"] = matches
    ngx.header["X-Is"] = ngx.re.find(ngx.var.uri, "^/+p/+login/*$", "jo") and "yes" or "no"
    ngx.header["X-Key"] = ngx.escape_uri(key[1] or "none")
    ngx.header["X-Arg"] = ngx.escape_uri(ngx.unescape_uri(ngx.var.arg_k or "none"))
    ngx.exit(204)
  } } }`})
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Close() }()
	in := bufio.NewReader(c)
	ask := func(target string) http.Header {
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		if res.StatusCode == http.StatusNoContent {
			return res.Header
		}
		c.Close() // nginx refuses it, and ends the connection
		if c, err = net.Dial("tcp", s.Addr); err != nil {
			t.Fatal(err)
		}
		in.Reset(c)
		return nil
	}
	check := func(target string) (is bool) {
		h := ask(target)
		if h.Get("X-Is") == "yes" && h.Get("X-Matches") != "yes" {
			t.Errorf("%q is /p/login to nginx, and not to the policies", target)
		}
		if h.Get("X-Key") != h.Get("X-Arg") {
			t.Errorf("%q: nginx has k=%s, the policies %s", target, h.Get("X-Arg"), h.Get("X-Key"))
		}
		return h.Get("X-Is") == "yes"
	}
	for _, target := range []string{
		"/p/login#x", "/p/login#", "/p/login#/../../x", `/x%5cy%2f../p/login`, `/x\y%2f../p/login`, "/p/x/..;a%2f../../login",
		"http://b/p/login#x", "/p/login?#k=1", "//p/%2e%2f./login",
	} {
		if !check(target) {
			t.Errorf("%q is not /p/login to nginx", target)
		}
	}
	for _, target := range []string{"/?k=1#2", "/#?k=1", "/?k=1%232", "/#x?k=1"} {
		if target[1] == '#' { // nginx sees no query here, others do
			ask(target)
			continue
		}
		check(target)
	}
	dice := rand.New(rand.NewPCG(5, 5))
	pieces := []string{"/", "/", "/", "%2f", "%2F", "..", "..", ".", "%2e", "p", "p", "login", "login", "x", ";", ";a", "%3b", "%5c", `\`, "#", "%23", "%25", "?", "%3f"}
	found := 0
	for range 6000 {
		var b strings.Builder
		b.WriteByte('/')
		for range 3 + dice.IntN(10) {
			b.WriteString(pieces[dice.IntN(len(pieces))])
		}
		if dice.IntN(2) == 0 {
			b.WriteString("/../" + []string{"login", "p/login", "../p/login", "../../p/login"}[dice.IntN(4)])
		}
		if check(b.String()) {
			found++
		}
	}
	if found < 100 {
		t.Errorf("of 6000 targets %s were /p/login to nginx, want 100", strconv.Itoa(found))
	}
}
