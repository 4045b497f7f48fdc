package forwardauth

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/httplimit"
)

// Header fields that describe the client's request, in canonical form.
const (
	forwardedMethod = "X-Forwarded-Method"
	originalMethod  = "X-Original-Method"
	forwardedURI    = "X-Forwarded-Uri"
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url"
	forwardedHost   = "X-Forwarded-Host"
	forwardedFor    = "X-Forwarded-For"
	forwarded       = "Forwarded"
)

// invalid returns the error of a field, with non-ASCII and control characters escaped.
func invalid(field, value, expected string) *problem.FieldError {
	return problem.Invalid(field, strings.Trim(strconv.QuoteToASCII(value), `"`), expected)
}

// original returns the client's request, as a server in place of the proxy would have
// read it.
func (h *Handler) original(r *http.Request) (*http.Request, error) {
	method, err := oneValue(r, "a method such as GET", forwardedMethod, originalMethod)
	if err != nil {
		return nil, err
	}
	host, err := value(r, forwardedHost, "one host, such as example.com")
	switch {
	case err != nil:
		return nil, err
	case strings.ContainsAny(host, ",/") || !isPlain(host):
		return nil, invalid(forwardedHost, host, "one host, such as example.com")
	}
	var o *http.Request
	for _, name := range []string{forwardedURI, originalURI, originalURL} {
		const want = "one path with its query, such as /search?q=weir"
		uri, err := value(r, name, want)
		if err != nil {
			return nil, err
		}
		if uri == "" {
			continue
		}
		next, err := read(method, uri, host, r.Host)
		switch {
		case err != nil && !isMethod(method):
			return nil, invalid(forwardedMethod, method, "a method such as GET")
		case err != nil:
			return nil, invalid(name, uri, want+", as a server would accept it")
		case next.URL.Host != "" && host != "" && !sameHost(next.URL.Host, host):
			return nil, invalid(forwardedHost, host, "the host of "+name+", or none")
		case o != nil && (o.URL.EscapedPath() != next.URL.EscapedPath() || o.URL.RawQuery != next.URL.RawQuery):
			return nil, invalid(name, uri, "the same as in the other field about the URI: a proxy has to set one and remove the others")
		}
		if o == nil || next.URL.Host != "" {
			o = next
		}
	}
	if o == nil {
		return nil, invalid(forwardedURI, "", "the path and query of the request, in this field, X-Original-URI or X-Original-URL")
	}
	addr := h.address(r)
	if addr == "" {
		name := h.header()
		return nil, invalid(name, strings.Join(r.Header[name], ", "), "the client's address as the last entry")
	}
	o.Header, o.RemoteAddr = r.Header, addr
	return o, nil
}

// value returns the value of a field; "" if it is absent or empty.
func value(r *http.Request, name, want string) (string, error) {
	lines := r.Header[name]
	if len(lines) == 0 {
		return "", nil
	}
	for _, l := range lines[1:] {
		if l != lines[0] {
			return "", invalid(name, strings.Join(lines, ", "), want+", once")
		}
	}
	return lines[0], nil
}

// oneValue returns the value of one of two fields, or of both if they are equal.
func oneValue(r *http.Request, want, one, other string) (string, error) {
	a, err := value(r, one, want)
	if err != nil {
		return "", err
	}
	b, err := value(r, other, want)
	switch {
	case err != nil:
		return "", err
	case a == "" && b == "":
		return "", invalid(one, "", want+", in this field or in "+other)
	case a == "":
		return b, nil
	case b != "" && a != b:
		return "", invalid(other, b, "the same as in "+one+": a proxy has to set one and remove the other")
	}
	return a, nil
}

// read parses a request as a server parses its first two lines.
func read(method, uri, host, otherwise string) (*http.Request, error) {
	if host == "" {
		host = otherwise
	}
	if !isPlain(method) || !isPlain(uri) || !isPlain(host) {
		return nil, errors.New("forwardauth: want no space and no control character")
	}
	text := method + " " + uri + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	return http.ReadRequest(bufio.NewReaderSize(strings.NewReader(text), 512))
}

// isPlain reports whether s has no spaces and no control characters.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// isMethod reports whether a server accepts s as a method.
func isMethod(s string) bool {
	_, err := read(s, "/", "x", "")
	return err == nil
}

// sameHost reports whether two hosts are equal, ignoring case and ports.
func sameHost(a, b string) bool { return strings.EqualFold(hostWithoutPort(a), hostWithoutPort(b)) }

func hostWithoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// header returns the field in which proxies name the client.
func (h *Handler) header() string {
	if strings.EqualFold(h.client.Header, forwarded) {
		return forwarded
	}
	return forwardedFor
}

// address returns the client that a trusted peer names, or "". The search begins at the
// last entry, which the peer itself has added.
func (h *Handler) address(r *http.Request) string {
	c := httplimit.ClientAddress{Trusted: h.client.Trusted, TrustUnix: true, Header: h.client.Header}
	name := h.header()
	addr := c.Addr(&http.Request{Header: http.Header{name: r.Header[name]}})
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}
