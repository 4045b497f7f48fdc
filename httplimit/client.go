package httplimit

import (
	"net/http"
	"net/netip"
)

// A ClientAddress finds the address of a client. Its zero value trusts nobody: the
// client is the peer of the connection, whatever the headers say.
type ClientAddress struct {
	// Trusted are the proxies whose header is believed.
	Trusted []netip.Prefix

	// TrustUnix trusts a peer that has no address: one on a Unix socket.
	TrustUnix bool

	// Header is the one header in which the trusted proxies say for whom they ask:
	// "X-Forwarded-For" (the default) or "Forwarded" (RFC 7239).
	Header string
}

// Addr is the address of the client of r: IPv4 where an IPv6 address maps one, and
// without zone. It is the zero Addr if the peer has none.
func (c *ClientAddress) Addr(r *http.Request) netip.Addr { return netip.Addr{} }
