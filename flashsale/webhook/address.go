package webhook

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// special lists networks that are not public, besides those that netip.Addr has methods for.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by carriers
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),        // contains IPv4 addresses
	netip.MustParsePrefix("64:ff9b::/96"), // NAT64: contains IPv4 addresses
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"), // contains Teredo
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // 6to4: contains IPv4 addresses
}

// isPublic reports whether an address is on the public internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(a.WithZone("")) {
			return false
		}
	}
	return true
}

// addressError means that an endpoint has an address that is not allowed.
type addressError struct{ addr netip.Addr }

func (e *addressError) Error() string {
	return fmt.Sprintf("address %v is not public", e.addr)
}

// dialControl returns a net.Dialer.Control that refuses addresses that are neither public nor in
// allowed. It gets the address to which the socket connects, so a name that resolves to another
// address the next time does not bypass it.
func dialControl(allowed []netip.Prefix) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("webhook: address %q: %w", address, err)
		}
		a := ap.Addr().Unmap().WithZone("")
		for _, p := range allowed {
			if p.Contains(a) {
				return nil
			}
		}
		if isPublic(a) {
			return nil
		}
		return &addressError{a}
	}
}

// newTransport returns the transport of a Deliverer.
func newTransport(allowed []netip.Prefix) *http.Transport {
	d := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second, Control: dialControl(allowed)}
	return &http.Transport{
		Proxy:                  nil, // a proxy would connect to any address
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    perEndpoint,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}
