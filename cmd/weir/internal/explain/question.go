package explain

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// A Question is a request to explain, with URL, or Path and Host, or a bucket of Envoy's quota service,
// with Domain and Bucket only.
type Question struct {
	// Method is GET if empty.
	Method string `json:"method,omitempty"`

	// URL is a path with its query, or a whole URL. It replaces Host and Path.
	URL string `json:"url,omitempty"`

	// Host is the host of the request; localhost if neither Host nor URL has one.
	Host string `json:"host,omitempty"`

	// Path is the path with its query; that of URL if empty.
	Path string `json:"path,omitempty"`

	// Headers holds the header fields of the request.
	Headers map[string]Values `json:"headers,omitempty"`

	// ClientIP is the client's address; empty for a client without one.
	ClientIP string `json:"client_ip,omitempty"`

	// Draft is the text of a policy file. The handler of New explains the request under it, too.
	Draft string `json:"draft,omitempty"`

	// Domain is the domain of Bucket.
	Domain string `json:"domain,omitempty"`

	// Bucket holds the pairs of the bucket's id.
	Bucket map[string]string `json:"bucket,omitempty"`
}

// Values holds the lines of a header field. In JSON a single line may be a string.
type Values []string

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil && len(b) > 0 && b[0] == '"' {
		*v = Values{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(b, &all); err != nil || all == nil {
		return invalid("headers", string(b), "a text or an array of texts for each name")
	}
	*v = all
	return nil
}

// invalid returns the error of a field with a client's value, in quotes.
func invalid(field, value, expected string) *problem.FieldError {
	if value != "" {
		value = strconv.Quote(problem.Shorten(value))
	}
	return problem.Invalid(field, value, expected)
}

// A request has the attributes of a question for policies.
type request struct {
	r     *http.Request
	addr  netip.Addr
	query url.Values
}

func (a *request) Method() string              { return a.r.Method }
func (a *request) Host() string                { return a.r.Host }
func (a *request) Path() string                { return a.r.URL.EscapedPath() }
func (a *request) Header(name string) []string { return a.r.Header[name] }
func (a *request) Query(name string) []string  { return a.query[name] }
func (a *request) ClientIP() netip.Addr        { return a.addr }
func (a *request) Cookie(name string) (values []string) {
	for _, c := range a.r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

// Check returns the error of a request that [Explain] rejects under all policies.
func (q *Question) Check() error {
	_, err := q.request()
	return err
}

// request parses q as a server parses a request.
func (q *Question) request() (*request, error) {
	method, uri, host := q.Method, q.Path, q.Host
	if method == "" {
		method = http.MethodGet
	}
	switch {
	case q.URL != "" && q.Path != "":
		return nil, invalid("path", q.Path, "url or path, not both")
	case q.URL == "" && q.Path == "":
		return nil, invalid("url", "", "a URL or path, such as /search?q=weir")
	case q.URL != "":
		uri = q.URL
	}
	if host == "" {
		host = "localhost"
	}
	if !isPlain(host) || strings.ContainsAny(host, ",/") {
		return nil, invalid("host", q.Host, "one host, such as example.com")
	}
	r, err := read(method, uri, host)
	if err != nil {
		if _, bad := read(method, "/", host); bad != nil {
			return nil, invalid("method", q.Method, "a method such as GET")
		}
		if q.URL != "" {
			return nil, invalid("url", q.URL, "a URL or path as a server would accept it, such as /search?q=weir")
		}
		return nil, invalid("path", q.Path, "a path as a server would accept it, such as /search?q=weir")
	}
	if q.Host != "" && r.URL.Host != "" && !strings.EqualFold(r.URL.Host, q.Host) {
		return nil, invalid("host", q.Host, "the host of url, or none")
	}
	query, _, _ := strings.Cut(r.URL.RawQuery, "#") // as package httplimit reads it
	a := &request{r: r}
	a.query, _ = url.ParseQuery(query)
	if r.Header, err = headers(q.Headers); err != nil {
		return nil, err
	}
	if q.ClientIP != "" {
		if a.addr, err = netip.ParseAddr(q.ClientIP); err != nil || a.addr.Zone() != "" {
			return nil, invalid("client_ip", q.ClientIP, "an address such as 203.0.113.7 or 2001:db8::1")
		}
		a.addr = a.addr.Unmap()
	}
	return a, nil
}

// read parses a request line and a Host field.
func read(method, uri, host string) (*http.Request, error) {
	if !isPlain(method) || !isPlain(uri) {
		return nil, fmt.Errorf("explain: %w: a space or control character", weir.ErrInvalid)
	}
	return http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + uri + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
}

// isPlain reports whether s has no spaces and control characters.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// headers returns header fields with canonical names.
func headers(named map[string]Values) (http.Header, error) {
	h := http.Header{}
	for name, values := range named {
		switch {
		case name == "" || strings.ContainsAny(name, ":(),/;<=>?@[]{}\"\\") || !isPlain(name) || strings.ContainsFunc(name, func(r rune) bool { return r > '~' }):
			return nil, invalid("headers", name, "valid names, such as X-Api-Key")
		case strings.EqualFold(name, "Host"):
			return nil, problem.Invalid("headers.Host", "one", "host")
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return nil, invalid("headers."+name, v, "a value without line breaks and other control characters")
			}
			c := textproto.CanonicalMIMEHeaderKey(name)
			h[c] = append(h[c], strings.Trim(v, " \t"))
		}
	}
	return h, nil
}
