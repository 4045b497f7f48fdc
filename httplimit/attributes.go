package httplimit

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// attributes is a request for policies. Values that are expensive to parse are parsed once, when
// a policy needs them.
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
		// A target has no fragment, but nginx ends the query at '#'. A server behind it
		// sees the same value for k=1#2 and k=1#3, so both must be one key.
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
