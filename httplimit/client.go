package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/floodweir/weir"
)

// A ClientAddress finds the address of a client. Its zero value trusts nobody: the
// client is the peer of the connection, whatever the headers say.
//
// Proxies append to a header the address from which a request came to them. So the
// list is read from its right end for as long as who wrote an entry is trusted, and
// the first address that is not is the client. What stands to the left of it was
// written by the client or by somebody unknown, and is never read. An entry that is
// no address ends the search too: the client is then the proxy that wrote it.
type ClientAddress struct {
	// Trusted are the proxies whose header is believed. Do not list networks from
	// which clients come directly.
	Trusted []netip.Prefix

	// TrustUnix trusts a peer that has no address: one on a Unix socket. Without it
	// all such peers share the bucket of those without an address.
	TrustUnix bool

	// Header is the one header in which the trusted proxies say for whom they ask:
	// "X-Forwarded-For", which is the default, or "Forwarded" (RFC 7239). The other
	// one is not read, since a proxy passes on what it does not know.
	Header string
}

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// check reports the first thing that is wrong with c.
func (c *ClientAddress) check() error {
	for i, p := range c.Trusted {
		switch {
		case !p.IsValid():
			return fmt.Errorf("httplimit: client: trusted[%d]: %w: want a prefix such as 10.0.0.0/8, got the zero Prefix", i, weir.ErrInvalid)
		case p.Addr().Is4In6():
			return fmt.Errorf("httplimit: client: trusted[%d]: %s: %w: want the prefix as IPv4: mapped addresses are compared as such", i, p, weir.ErrInvalid)
		}
	}
	if c.Header != "" && !strings.EqualFold(c.Header, forwardedFor) && !strings.EqualFold(c.Header, forwarded) {
		return fmt.Errorf("httplimit: client: header %.60q: %w: want X-Forwarded-For or Forwarded", c.Header, weir.ErrInvalid)
	}
	return nil
}

// Addr is the address of the client of r, without zone, and IPv4 where an IPv6
// address maps one. It is the zero Addr if the peer has none and is not trusted, or
// says nothing of its client.
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

// cutLast cuts the last element off a list; more says that something is left.
func cutLast(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return trim(list), "", false
	}
	return trim(list[i+1:]), list[:i], true
}

func trim(s string) string { return strings.Trim(s, " \t") }

// parsePeer reads the RemoteAddr of a request. It is the zero Addr for the peer on a
// Unix socket, which has no address.
func parsePeer(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr())
	}
	a, _ := netip.ParseAddr(s)
	return plain(a)
}

// parseHop reads an entry of X-Forwarded-For: an address, with a port or without.
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

// plain is an address in its one spelling.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// parseForwarded reads an element of Forwarded: pairs such as for=192.0.2.1 and
// for="[2001:db8::1]:80", apart by semicolons. It has to be whole: of a quoted
// string with commas in it, which a proxy may have from a client, every piece has an
// odd quote and is refused.
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
			return netip.Addr{}, false // two of them
		}
		if a, ok = parseHop(value); !ok {
			return netip.Addr{}, false
		}
	}
	return a, ok
}

// unquote is a value without its quotes, and whether it has both or none of them.
func unquote(s string) (string, bool) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	return s, !strings.ContainsAny(s, `"\`)
}
