package replay

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/enforce"
)

// A request has the attributes of an entry for policies, and its outcome.
type request struct {
	e         *accesslog.Entry
	to        *replica
	admission enforce.Admission
	query     url.Values
	deniedBy  string
}

func (r *request) Method() string       { return r.e.Method }
func (r *request) Host() string         { return r.e.Host }
func (r *request) Path() string         { return r.e.Path }
func (r *request) ClientIP() netip.Addr { return r.e.Client }

// Header implements [policy.Attributes].
func (r *request) Header(name string) (values []string) {
	if name == "User-Agent" && r.e.Agent != "" {
		return []string{r.e.Agent}
	}
	if r.e.Headers == "" {
		return r.missing("header " + name)
	}
	gjson.Parse(r.e.Headers).ForEach(func(k, v gjson.Result) bool {
		if strings.EqualFold(k.Str, name) {
			for _, line := range v.Array() {
				values = append(values, line.String())
			}
		}
		return true
	})
	return values
}

// missing returns the column key, or notes that the log does not have a value.
func (r *request) missing(what string) []string {
	if r.e.Key != "" {
		return []string{r.e.Key}
	}
	r.to.missing[what]++
	return nil
}

// Query implements [policy.Attributes].
func (r *request) Query(name string) []string {
	if r.query == nil {
		_, text, _ := strings.Cut(r.e.Path, "?")
		r.query, _ = url.ParseQuery(text)
	}
	return r.query[name]
}

// Cookie implements [policy.Attributes].
func (r *request) Cookie(name string) (values []string) {
	if r.e.Headers == "" {
		return r.missing("cookie " + name)
	}
	for _, line := range r.Header("Cookie") {
		cookies, err := http.ParseCookie(line)
		for _, c := range cookies {
			if err == nil && c.Name == name {
				values = append(values, c.Value)
			}
		}
	}
	return values
}
