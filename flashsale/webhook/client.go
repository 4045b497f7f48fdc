package webhook

import (
	"net/http"
	"net/netip"
	"time"
)

// NewClient returns a client for addresses that others choose: it connects only to public
// addresses and to those in networks, follows no redirect and uses no proxy.
func NewClient(timeout time.Duration, networks []netip.Prefix) *http.Client {
	return &http.Client{
		Transport: newTransport(networks), Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
