package problem

import (
	"net"
	"net/netip"
	"strings"
)

// IsAddress reports whether host is an IP address or localhost, with or without a port. A
// browser reaches any other name wherever its owner points it, also at this machine after
// a page was loaded (DNS rebinding).
func IsAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || IsLocalhost(host)
}

// IsLocalhost reports whether host is the name localhost.
func IsLocalhost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}
