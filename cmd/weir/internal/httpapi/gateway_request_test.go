package httpapi_test

import (
	"net/http"
	"net/netip"
)

// gatewayRequest is a request as a gateway shows it to policies.
type gatewayRequest struct{ r *http.Request }

func (g gatewayRequest) Method() string              { return g.r.Method }
func (g gatewayRequest) Host() string                { return g.r.Host }
func (g gatewayRequest) Path() string                { return g.r.URL.EscapedPath() }
func (g gatewayRequest) Header(name string) []string { return g.r.Header[name] }
func (g gatewayRequest) Query(name string) []string  { return g.r.URL.Query()[name] }

// The fields of a body stand in headers.
func (g gatewayRequest) Form(name string) string { return g.r.Header.Get("Form-" + name) }
func (g gatewayRequest) JSON(path string) string { return g.r.Header.Get("Json-" + path) }

func (g gatewayRequest) ClientIP() netip.Addr {
	return netip.MustParseAddrPort(g.r.RemoteAddr).Addr()
}

func (g gatewayRequest) Cookie(name string) (values []string) {
	for _, c := range g.r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}
