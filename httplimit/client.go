package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/floodweir/weir"
)

// A ClientAddress finds the address of a client. Its zero value trusts no proxy: the client is
// the peer of the connection.
//
// Each proxy appends the address of its peer to a header. The list is read from the right as
// long as the proxy that wrote an entry is trusted. The first address that is not trusted is the
// client. Entries to the left of it can be forged and are not read. An entry that is not an
// address ends the search: the client is then the proxy that wrote it.
type ClientAddress struct {
	// Trusted are the proxies whose header is used. Do not list networks from which
	// clients connect directly.
	Trusted []netip.Prefix

	// TrustUnix trusts peers on Unix sockets, which have no address. Without it they share
	// one bucket.
	TrustUnix bool

	// Header is the header that the trusted proxies set: "X-Forwarded-For", the default, or
	// "Forwarded" (RFC 7239). The other one is not read, because a proxy passes on headers
	// that it does not know.
	Header string
}

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// check returns an error about the first invalid field.
func (c *ClientAddress) check() error {
	for i, p := range c.Trusted {
		switch {
		case !p.IsValid():
			return fmt.Errorf("httplimit: client: trusted[%d]: %w: got the zero Prefix, want a prefix such as 10.0.0.0/8", i, weir.ErrInvalid)
		case p.Addr().Is4In6():
			return fmt.Errorf("httplimit: client: trusted[%d]: %s: %w: want the prefix as IPv4: mapped addresses are compared as such", i, p, weir.ErrInvalid)
		}
	}
	if c.Header != "" && !strings.EqualFold(c.Header, forwardedFor) && !strings.EqualFold(c.Header, forwarded) {
		return fmt.Errorf("httplimit: client: header %.60q: %w: want X-Forwarded-For or Forwarded", c.Header, weir.ErrInvalid)
	}
	return nil
}

// Addr returns the address of the client of r, without zone. An IPv4-mapped IPv6 address is
// returned as IPv4. It returns the zero Addr if the peer has no address and is not trusted, or
// does not report its client.
func (c *ClientAddress) Addr(r *http.Request) netip.Addr {
	addr := parsePeer(r.RemoteAddr)
	if !c.trusts(addr) {
		return addr
	}
	parse, name := parseHop, forwardedFor
	if strings.EqualFold(c.Header, forwarded) {
		parse, name = parseForwarded, forwarded
	}
	lines := r.Header[name]
	for i := len(lines) - 1; i >= 0; i-- {
		rest, more := lines[i], true
		for more {
			var entry string
			entry, rest, more = cutLast(rest)
			next, ok := parse(entry)
			if !ok {
				return addr
			}
			addr = next
			if !c.trusts(addr) {
				return addr
			}
		}
	}
	return addr
}

func (c *ClientAddress) trusts(a netip.Addr) bool {
	if !a.IsValid() {
		return c.TrustUnix
	}
	for _, p := range c.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// cutLast cuts off the last element of a list; more reports whether elements are left.
func cutLast(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return trim(list), "", false
	}
	return trim(list[i+1:]), list[:i], true
}

func trim(s string) string { return strings.Trim(s, " \t") }

// parsePeer parses the RemoteAddr of a request. It returns the zero Addr for a peer on a Unix
// socket.
func parsePeer(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr())
	}
	a, _ := netip.ParseAddr(s)
	return plain(a)
}

// parseHop parses an entry of X-Forwarded-For: an address with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return plain(a), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr()), true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		if a, err := netip.ParseAddr(s[1 : len(s)-1]); err == nil && a.Is6() {
			return plain(a), true
		}
	}
	return netip.Addr{}, false
}

// plain returns an address in canonical form.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// parseForwarded parses an element of Forwarded: pairs such as for=192.0.2.1 and
// for="[2001:db8::1]:80", separated by semicolons. A piece of a quoted string that contains
// commas, which a client may have sent, has an odd number of quotes and is refused.
func parseForwarded(s string) (a netip.Addr, ok bool) {
	for more := true; more; {
		var pair string
		pair, s, more = strings.Cut(s, ";")
		name, value, _ := strings.Cut(trim(pair), "=")
		value, whole := unquote(value)
		if !whole {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if ok {
			return netip.Addr{}, false // a duplicate
		}
		if a, ok = parseHop(value); !ok {
			return netip.Addr{}, false
		}
	}
	return a, ok
}

// unquote removes the quotes of a value, and reports whether it has both or none.
func unquote(s string) (string, bool) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	return s, !strings.ContainsAny(s, `"\`)
}
