package httplimit

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// attributes describe a request to the policies. What is dear to find is found
// once, and only if a policy asks.
type attributes struct {
	w       http.ResponseWriter // that the handler of Wrap got
	r       *http.Request
	client  *ClientAddress
	addr    netip.Addr
	located bool
	query   url.Values
}

func (a *attributes) Method() string { return a.r.Method }

func (a *attributes) Host() string { return a.r.Host }

func (a *attributes) Path() string { return a.r.URL.EscapedPath() }

func (a *attributes) Header(name string) []string { return a.r.Header[name] }

func (a *attributes) Query(name string) []string {
	if a.query == nil {
		// No target has a fragment, but nginx ends a query there: to what stands behind
		// one, k=1#2 and k=1#3 are the same value.
		raw, _, _ := strings.Cut(a.r.URL.RawQuery, "#")
		a.query, _ = url.ParseQuery(raw)
	}
	return a.query[name]
}

func (a *attributes) Cookie(name string) []string {
	var values []string
	for _, c := range a.r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

func (a *attributes) ClientIP() netip.Addr {
	if !a.located {
		a.addr, a.located = a.client.Addr(a.r), true
	}
	return a.addr
}
