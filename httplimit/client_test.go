package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, text := range texts {
		ps = append(ps, netip.MustParsePrefix(text))
	}
	return ps
}

var (
	noProxy = httplimit.ClientAddress{}
	xff     = httplimit.ClientAddress{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}
	fwd     = httplimit.ClientAddress{Trusted: prefixes("10.0.0.0/8", "fd00::/8"), Header: "forwarded"}
	unix    = httplimit.ClientAddress{TrustUnix: true}
)

// TestClientAddress checks the client address for peers and headers.
func TestClientAddress(t *testing.T) {
	many := strings.Repeat("198.51.100.1, ", 1000)
	for _, tc := range []struct {
		name   string
		c      httplimit.ClientAddress
		peer   string
		header http.Header
		want   string // "" for no address
	}{
		{"no header", noProxy, "203.0.113.7:80", nil, "203.0.113.7"},
		{"header without trust", noProxy, "203.0.113.7:80", http.Header{"X-Forwarded-For": {"1.2.3.4"}, "Forwarded": {"for=1.2.3.4"}, "X-Real-Ip": {"1.2.3.4"}}, "203.0.113.7"},
		{"header of an untrusted peer", xff, "203.0.113.7:80", http.Header{"X-Forwarded-For": {"1.2.3.4"}}, "203.0.113.7"},
		{"mapped peer", noProxy, "[::ffff:203.0.113.7]:80", nil, "203.0.113.7"},
		{"mapped peer in hex", noProxy, "[::ffff:cb00:7107]:80", nil, "203.0.113.7"},
		{"zone", noProxy, "[fe80::1%eth0]:80", nil, "fe80::1"},
		{"unix socket", noProxy, "@", http.Header{"X-Forwarded-For": {"1.2.3.4"}}, ""},
		{"empty peer", noProxy, "", nil, ""},
		{"garbage peer", noProxy, "pipe", nil, ""},
		{"peer without port", noProxy, "203.0.113.7", nil, "203.0.113.7"},
		{"trusted unix socket", unix, "@", http.Header{"X-Forwarded-For": {"1.2.3.4"}}, "1.2.3.4"},
		{"trusted unix socket that says nothing", unix, "@", nil, ""},
		{"unix trust is no trust of addresses", unix, "127.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4"}}, "127.0.0.1"},

		{"trusted proxy that says nothing", xff, "10.0.0.1:80", nil, "10.0.0.1"},
		{"one hop", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4"}}, "1.2.3.4"},
		{"one hop, mapped proxy", xff, "[::ffff:10.0.0.1]:80", http.Header{"X-Forwarded-For": {"1.2.3.4"}}, "1.2.3.4"},
		{"forged left part", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"8.8.8.8, 10.9.9.9, 1.2.3.4"}}, "1.2.3.4"},
		{"two hops", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"8.8.8.8, 1.2.3.4, 10.0.0.2"}}, "1.2.3.4"},
		{"three hops of two families", xff, "[fd00::1]:80", http.Header{"X-Forwarded-For": {"8.8.8.8,1.2.3.4,\t10.0.0.2 ,fd00::2"}}, "1.2.3.4"},
		{"several lines", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"8.8.8.8", "1.2.3.4", "10.0.0.2"}}, "1.2.3.4"},
		{"several lines of several", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"8.8.8.8, 7.7.7.7", "1.2.3.4, 10.0.0.3", "10.0.0.2"}}, "1.2.3.4"},
		{"all trusted", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"10.0.0.3, 10.0.0.2"}}, "10.0.0.3"},
		{"garbage", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4, garbage"}}, "10.0.0.1"},
		{"garbage after a hop", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4, garbage, 10.0.0.2"}}, "10.0.0.2"},
		{"unknown", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4, unknown"}}, "10.0.0.1"},
		{"empty entry", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4,"}}, "10.0.0.1"},
		{"empty line", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4", ""}}, "10.0.0.1"},
		{"port", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4:5678"}}, "1.2.3.4"},
		{"IPv6", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1"},
		{"IPv6 in brackets", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"[2001:db8::1]"}}, "2001:db8::1"},
		{"IPv6 with a port", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"[2001:db8::1]:443"}}, "2001:db8::1"},
		{"IPv6 with a zone", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"fe80::1%25eth0"}}, "fe80::1"},
		{"mapped", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"::ffff:1.2.3.4"}}, "1.2.3.4"},
		{"mapped in hex", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"::ffff:102:304"}}, "1.2.3.4"},
		{"NAT64", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"64:ff9b::1.2.3.4"}}, "64:ff9b::102:304"},
		{"IPv4 in brackets", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"[1.2.3.4]"}}, "10.0.0.1"},
		{"octal", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"01.02.03.04"}}, "10.0.0.1"},
		{"a thousand entries", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {many + "1.2.3.4"}}, "1.2.3.4"},
		{"a thousand trusted entries", xff, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"1.2.3.4, " + strings.Repeat("10.0.0.2, ", 1000) + "10.0.0.2"}}, "1.2.3.4"},
		{"the other header", xff, "10.0.0.1:80", http.Header{"Forwarded": {"for=1.2.3.4"}}, "10.0.0.1"},
		{"both headers", xff, "10.0.0.1:80", http.Header{"Forwarded": {"for=8.8.8.8"}, "X-Forwarded-For": {"1.2.3.4"}}, "1.2.3.4"},

		{"forwarded", fwd, "10.0.0.1:80", http.Header{"Forwarded": {"for=1.2.3.4"}, "X-Forwarded-For": {"8.8.8.8"}}, "1.2.3.4"},
		{"forwarded without", fwd, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"8.8.8.8"}}, "10.0.0.1"},
		{"forwarded pairs", fwd, "10.0.0.1:80", http.Header{"Forwarded": {"for=8.8.8.8, proto=https; For=\"1.2.3.4:99\" ;by=_x;host=a.example"}}, "1.2.3.4"},
		{"forwarded IPv6", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for="[2001:db8::1]:4711"`}}, "2001:db8::1"},
		{"forwarded hops", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for=8.8.8.8, for=1.2.3.4, for="[fd00::2]"`, `for=10.0.0.2`}}, "1.2.3.4"},
		{"forwarded unknown", fwd, "10.0.0.1:80", http.Header{"Forwarded": {"for=1.2.3.4, for=unknown"}}, "10.0.0.1"},
		{"forwarded hidden", fwd, "10.0.0.1:80", http.Header{"Forwarded": {"for=1.2.3.4, for=_hidden"}}, "10.0.0.1"},
		{"forwarded without for", fwd, "10.0.0.1:80", http.Header{"Forwarded": {"for=1.2.3.4, proto=https"}}, "10.0.0.1"},
		{"forwarded twice for", fwd, "10.0.0.1:80", http.Header{"Forwarded": {"for=1.2.3.4;for=5.6.7.8"}}, "10.0.0.1"},
		{"forwarded half a quote", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for="1.2.3.4`}}, "10.0.0.1"},
		{"forwarded open quote on the left", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for="8.8.8.8, for=1.2.3.4`}}, "1.2.3.4"},
		{"forwarded address in a quoted host", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for=1.2.3.4;host="x,for=8.8.8.8"`}}, "10.0.0.1"},
		{"forwarded pairs in a quoted host", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for=1.2.3.4;host="x,for=8.8.8.8;a=b"`}}, "10.0.0.1"},
		{"forwarded escape", fwd, "10.0.0.1:80", http.Header{"Forwarded": {`for="1.2.3.\4"`}}, "10.0.0.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header = tc.peer, tc.header
		want := netip.Addr{}
		if tc.want != "" {
			want = netip.MustParseAddr(tc.want)
		}
		if got := tc.c.Addr(r); got != want {
			t.Errorf("%s: Addr = %v, want %v", tc.name, got, want)
		}
	}
}

// TestForgedAddressesShareOneBucket checks that a forwarding header from a client makes no
// bucket if no proxy is trusted.
func TestForgedAddressesShareOneBucket(t *testing.T) {
	store, keys := recording()
	h := wrap(t, store, set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for i := range 100_000 {
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if len(keys) != 1 {
		t.Errorf("100000 forged addresses have %d buckets, want 1", len(keys))
	}
}

// TestSpellingsOfAnAddress checks that an IPv4 client has one bucket in every spelling of its
// address, and that two clients have two.
func TestSpellingsOfAnAddress(t *testing.T) {
	store, keys := recording()
	h := wrap(t, store, set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{Client: xff})
	for _, a := range []string{"1.2.3.4", "::ffff:1.2.3.4", "::FFFF:102:304", "0:0:0:0:0:ffff:1.2.3.4", "[::ffff:1.2.3.4]:9", "1.2.3.4:9"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:80"
		r.Header.Set("X-Forwarded-For", a)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if len(keys) != 1 || !keys["p|7:1.2.3.4"] {
		t.Errorf("the spellings of 1.2.3.4 have the keys %v, want one", keys)
	}
	get(h, "/", "[::ffff:1.2.3.5]:1")
	if len(keys) != 2 {
		t.Errorf("two IPv4 clients have the keys %v, want two", keys)
	}
}

func TestTrustedErrors(t *testing.T) {
	for name, c := range map[string]httplimit.ClientAddress{
		"zero prefix":   {Trusted: []netip.Prefix{{}}},
		"mapped prefix": {Trusted: prefixes("::ffff:10.0.0.0/104")},
	} {
		if _, err := httplimit.New(fakestore.Memory(t), set(t), httplimit.Config{Client: c}); err == nil || !strings.Contains(err.Error(), "trusted[0]") {
			t.Errorf("%s: New = %v, want an error that names trusted[0]", name, err)
		}
	}
}

// FuzzClientAddress checks that the client is the peer, or a hop that a trusted address wrote,
// for any headers.
func FuzzClientAddress(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "for=1.2.3.4", `for="[::1]:80";by=x`, "unknown", `host="a,for=9.9.9.9"`, ",,,", `"`, "for", "10.0.0.1", "for=10.0.0.1"} {
		f.Add(s, "10.0.0.1:80", true)
		f.Add(s, "@", false)
	}
	f.Fuzz(func(t *testing.T, left, remote string, forwarded bool) {
		c, name, last := xff, "X-Forwarded-For", "192.0.2.1"
		if forwarded {
			c, name, last = fwd, "Forwarded", "for=192.0.2.1"
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		r.Header[name] = []string{left}
		c.Addr(r) // does not panic

		r.RemoteAddr = "10.0.0.1:80"
		for _, lines := range [][]string{{left + "," + last}, {left, last}, {left + ", " + last + ", " + strings.Replace(last, "192.0.2.1", "10.3.2.1", 1)}} {
			r.Header[name] = lines
			if got := c.Addr(r); got != netip.MustParseAddr("192.0.2.1") {
				t.Errorf("Addr of %q = %v, want 192.0.2.1, whatever stands before it", lines, got)
			}
		}
	})
}
