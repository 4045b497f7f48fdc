package policy

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// An OnDenied describes the answer to a denied request. Its zero value is status
// 429 with a problem+json body.
type OnDenied struct {
	// Status is 429 if zero; 200 to 599, without 204, 205 and 304, which have no body.
	Status int

	// Body is "problem+json", the default, or a text that is sent unchanged.
	Body string

	// ContentType is that of a text; "text/plain; charset=utf-8" if empty. It has to
	// be empty for a problem.
	ContentType string

	// Headers are added to the answer. Fields that the door sets itself, such as
	// Retry-After, and those of the connection are refused.
	Headers map[string]string

	// Redirect is a URL or a path to send the client to. Status is then 303 if zero, or
	// one of 302, 303, 307 and 308, and Body is empty.
	Redirect string

	// Wait, up to a minute, holds a denied request back for at most so long, until it
	// can be admitted; it is denied at once if it could not be. None if zero.
	Wait time.Duration
}

// problemJSON is the Body that stands for a problem document.
const problemJSON = "problem+json"

// IsProblem reports whether the body is a problem (RFC 9457) that names the violated
// policies, as the RateLimit draft describes it.
func (d *OnDenied) IsProblem() bool { return d.Body == problemJSON }

// maxBody is the longest text of a body, in bytes.
const maxBody = 64 << 10

func (d *OnDenied) setDefaults() {
	if d.Redirect != "" {
		if d.Status == 0 {
			d.Status = 303
		}
		return
	}
	if d.Status == 0 {
		d.Status = 429
	}
	if d.Body == "" {
		d.Body = problemJSON
	}
	if d.ContentType == "" && !d.IsProblem() {
		d.ContentType = "text/plain; charset=utf-8"
	}
}

// check reports the faults of d after its defaults are filled in.
func (d *OnDenied) check(f *faults) {
	if d.Wait < 0 || d.Wait > time.Minute {
		f.Add("on_denied.wait", d.Wait.String(), "want 0 to 1m")
	}
	d.checkHeaders(f)
	if d.Redirect != "" {
		d.checkRedirect(f)
		return
	}
	switch {
	case d.Status < 200 || d.Status > 599:
		f.Add("on_denied.status", fmt.Sprint(d.Status), "want 200 to 599")
	case d.Status == 204 || d.Status == 205 || d.Status == 304:
		f.Add("on_denied.status", fmt.Sprint(d.Status), "want a status that has a body, such as 429")
	}
	if len(d.Body) > maxBody {
		f.Add("on_denied.body", fmt.Sprintf("%d bytes", len(d.Body)), "want at most %d bytes", maxBody)
	}
	if d.IsProblem() && d.ContentType != "" {
		f.Add("on_denied.content_type", fault.Quote(d.ContentType), "want none with a problem+json body, which has its own")
	}
	if d.ContentType != "" && (!isFieldValue(d.ContentType) || !strings.Contains(d.ContentType, "/")) {
		f.Add("on_denied.content_type", fault.Quote(d.ContentType), "want a media type such as text/html; charset=utf-8")
	}
}

// checkRedirect reports the faults of a d that redirects.
func (d *OnDenied) checkRedirect(f *faults) {
	if !isTarget(d.Redirect) {
		f.Add("on_denied.redirect", fault.Quote(d.Redirect), "want an http or https URL or a path that begins with one slash, with what is special in URLs escaped")
	}
	if d.Status != 302 && d.Status != 303 && d.Status != 307 && d.Status != 308 {
		f.Add("on_denied.status", fmt.Sprint(d.Status), "want 302, 303, 307 or 308 with on_denied.redirect")
	}
	if d.Body != "" {
		f.Add("on_denied.body", fault.Quote(d.Body), "want none with on_denied.redirect")
	}
	if d.ContentType != "" {
		f.Add("on_denied.content_type", fault.Quote(d.ContentType), "want none with on_denied.redirect")
	}
}

// isTarget reports whether s can be sent as a Location. A browser takes "//host" and
// "/\host" for other hosts.
func isTarget(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '\\' || s[i] == '"' || s[i] == '<' || s[i] == '>' {
			return false
		}
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > maxText {
		return false
	}
	if s[0] == '/' {
		return !strings.HasPrefix(s, "//")
	}
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

func (d *OnDenied) checkHeaders(f *faults) {
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		field := "on_denied.headers." + name
		switch value := d.Headers[name]; {
		case !isToken(name):
			f.Add(field, "", "want header names as HTTP has them, such as Location")
		case isReserved(canonical(name)):
			f.Add(field, "", "want no field that the door sets itself or that belongs to the connection")
		case d.Redirect != "" && canonical(name) == "Location":
			f.Add(field, "", "want on_denied.redirect alone, which is the Location")
		case !isFieldValue(value):
			f.Add(field, fault.Quote(value), "want a value without line breaks and other control characters")
		}
	}
}

// isReserved reports whether a denial's header is not the user's to set.
func isReserved(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Retry-After",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit")
}

// isFieldValue reports whether s can be the value of a header.
func isFieldValue(s string) bool {
	return len(s) <= maxText && s == strings.TrimSpace(s) && !spelling.HasControl(strings.ReplaceAll(s, "\t", " "))
}
