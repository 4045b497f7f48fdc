package scenario

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/strict"
)

// A template describes a request. Fields that the file does not set are empty.
type template struct {
	method, path, host, client string
	headers                    map[string]string
	cookies                    map[string]string
	claims                     any
	body                       *content // nil for none
}

// A content is the body of a request.
type content struct {
	media string // its type; "" for none
	text  string
}

// request reads a request; nil if it is absent.
func (r *reader) request(n strict.Node, field string) *template {
	if !n.There() {
		return nil
	}
	m, _ := r.Map(n, field, requestFields)
	t := &template{
		method: r.text(m.Values["method"], field+".method", "want a method such as GET"),
		path:   r.text(m.Values["path"], field+".path", "want a path such as /search?q=weir"),
		host:   r.text(m.Values["host"], field+".host", "want a host such as example.com"),
		client: r.text(m.Values["client"], field+".client", "want an address such as 203.0.113.7"),
	}
	if t.headers = r.texts(m.Values["headers"], field+".headers"); len(t.headers) > 0 {
		t.headers = canonical(t.headers)
	}
	t.cookies = r.texts(m.Values["cookies"], field+".cookies")
	if v := m.Values["claims"]; v.There() {
		if v.Kind() != strict.Map {
			r.Fail(v, field+".claims", v.String(), "want a map of claims, such as {sub: ada}")
		}
		t.claims = r.json(v, field+".claims", 0)
		if t.headers["Authorization"] != "" {
			r.Fail(v, field+".claims", "", "want claims or the header Authorization, not both: claims become its token")
		}
	}
	t.body = r.content(m, field)
	if t.client != "" {
		if a, err := netip.ParseAddr(t.client); err != nil || a.Zone() != "" {
			r.Fail(m.Values["client"], field+".client", strict.Quoted(t.client), "want an address such as 203.0.113.7 or 2001:db8::1")
			t.client = ""
		}
	}
	return t
}

// content reads the body of a request; nil if it is absent.
func (r *reader) content(m strict.Mapping, field string) *content {
	var c *content
	for _, name := range []string{"form", "json", "body"} {
		v := m.Values[name]
		if !v.There() {
			continue
		}
		at := strict.Join(field, name)
		if c != nil {
			r.Fail(v, at, "", "want one of form, json and body")
		}
		switch name {
		case "form":
			values := url.Values{}
			for name, value := range r.texts(v, at) {
				values.Set(name, value)
			}
			c = &content{"application/x-www-form-urlencoded", values.Encode()}
		case "json":
			text, _ := json.Marshal(r.json(v, at, 0)) // maps, lists and scalars always marshal
			c = &content{"application/json", string(text)}
		default:
			c = &content{"", r.scalar(v, at, "want a text")}
		}
	}
	return c
}

func canonical(headers map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range headers {
		all[http.CanonicalHeaderKey(name)] = value
	}
	return all
}

// with returns t with the fields of more, both of which may be nil.
func (t *template) with(more *template) *template {
	all := template{method: http.MethodGet, path: "/", host: "localhost", client: "192.0.2.1", headers: map[string]string{}, cookies: map[string]string{}}
	for _, one := range []*template{t, more} {
		if one == nil {
			continue
		}
		for to, value := range map[*string]string{&all.method: one.method, &all.path: one.path, &all.host: one.host, &all.client: one.client} {
			if value != "" {
				*to = value
			}
		}
		maps.Copy(all.headers, one.headers)
		maps.Copy(all.cookies, one.cookies)
		if one.claims != nil {
			all.claims = one.claims
			delete(all.headers, "Authorization")
		}
		if one.headers["Authorization"] != "" {
			all.claims = nil
		}
		all.body = cmp.Or(one.body, all.body)
	}
	return &all
}

// parse returns the request of t as a server parses it, or reports why it cannot.
func (r *reader) parse(n strict.Node, field string, t *template) *http.Request {
	text := func(method, uri, host string) (*http.Request, error) {
		if strings.ContainsFunc(method+uri+host, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			return nil, weir.ErrInvalid
		}
		return http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + uri + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
	}
	made, err := text(t.method, t.path, t.host)
	switch {
	case err == nil && strings.HasPrefix(t.path, "/"):
	case !valid(text(t.method, "/", "localhost")):
		r.Fail(n, field+".request.method", strict.Quoted(t.method), "want a method such as GET")
		return nil
	case !valid(text("GET", "/", t.host)):
		r.Fail(n, field+".request.host", strict.Quoted(t.host), "want a host such as example.com")
		return nil
	default:
		r.Fail(n, field+".request.path", strict.Quoted(t.path), "want a path as a server accepts it, such as /search?q=weir")
		return nil
	}
	made.RemoteAddr = net.JoinHostPort(t.client, "1024")
	for name, value := range t.headers {
		if name == "" || strings.ContainsAny(name, " :\t") || name == "Host" {
			r.Fail(n, field+".request.headers", strict.Quoted(name), "want the name of a header; for Host use host")
			continue
		}
		made.Header.Set(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(t.cookies)) {
		made.AddCookie(&http.Cookie{Name: name, Value: t.cookies[name]})
	}
	if c := t.body; c != nil {
		made.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(c.text)), nil }
		made.ContentLength = int64(len(c.text))
		made.Header.Set("Content-Length", strconv.Itoa(len(c.text)))
		if c.media != "" && made.Header.Get("Content-Type") == "" {
			made.Header.Set("Content-Type", c.media)
		}
	}
	if t.claims != nil {
		made.Header.Set("Authorization", "Bearer "+token(t.claims))
	}
	return made
}

func valid(_ *http.Request, err error) bool { return err == nil }

// token returns a JSON Web Token with claims and an invalid signature: policies read claims
// of tokens that another component has verified.
func token(claims any) string {
	payload, _ := json.Marshal(claims) // maps, lists and scalars always marshal
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload) + "." + encode([]byte("test"))
}

// A response describes the response of the simulated upstream.
type response struct {
	status int
	header http.Header
	body   []byte
	takes  time.Duration
}

func (r *reader) response(n strict.Node, field string) response {
	p := response{status: http.StatusOK, header: http.Header{}}
	if !n.There() {
		return p
	}
	m, _ := r.Map(n, field, responseFields)
	if v := m.Values["status"]; v.There() {
		p.status = int(r.integer(v, field+".status", 200, 599))
	}
	p.takes = r.duration(m.Values["takes"], field+".takes", 0)
	bodies := 0
	for _, name := range []string{"json", "events", "body"} {
		v := m.Values[name]
		if !v.There() {
			continue
		}
		at := strict.Join(field, name)
		if bodies++; bodies > 1 {
			r.Fail(v, at, "", "want one of json, events and body")
		}
		switch name {
		case "json":
			p.header.Set("Content-Type", "application/json")
			p.body, _ = json.Marshal(r.json(v, at, 0))
		case "events":
			p.header.Set("Content-Type", "text/event-stream")
			for i, e := range r.list(v, at, "want a list of events, each a JSON value") {
				data, _ := json.Marshal(r.json(e, strict.Index(at, i), 0))
				p.body = append(append(append(p.body, "data: "...), data...), "\n\n"...)
			}
		default:
			p.body = []byte(r.scalar(v, at, "want a text"))
		}
	}
	for name, value := range r.texts(m.Values["headers"], field+".headers") {
		p.header.Set(name, value)
	}
	return p
}
