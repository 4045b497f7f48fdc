package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// OnDenied describes the response to a denied request. The zero value is status 429 with a
// problem+json body.
type OnDenied struct {
	// Status is 200 to 599, except 204, 205 and 304, which have no body; 429 if zero.
	Status int

	// Body is "problem+json", the default, or a text that is sent unchanged.
	Body string

	// ContentType is the media type of a text; "text/plain; charset=utf-8" if empty. It must
	// be empty for a problem.
	ContentType string

	// Headers are added to the response. Headers that the interface sets, such as
	// Retry-After, and those of the connection are invalid.
	Headers map[string]string

	// Redirect is a URL or a path for the Location header. Status is then 302, 303, 307 or
	// 308; 303 if zero. Body must be empty.
	Redirect string

	// Wait, up to a minute, bounds the time for which a denied request is held back until it
	// can be admitted. A request that needs longer is denied at once. Not used if zero.
	Wait time.Duration
}

// problemJSON is the Body that stands for a problem document.
const problemJSON = "problem+json"

// IsProblem reports whether the body is a problem (RFC 9457) that names the violated
// policies, as the RateLimit draft describes it.
func (d *OnDenied) IsProblem() bool { return d.Body == problemJSON }

// maxBody is the largest body in bytes.
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

// check adds the errors of d, which has its defaults.
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
	if d.ContentType != "" && (!spelling.IsFieldValue(d.ContentType) || !strings.Contains(d.ContentType, "/")) {
		f.Add("on_denied.content_type", fault.Quote(d.ContentType), "want a media type such as text/html; charset=utf-8")
	}
}

// checkRedirect adds the errors of a d that redirects.
func (d *OnDenied) checkRedirect(f *faults) {
	if !spelling.IsTarget(d.Redirect) {
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

func (d *OnDenied) checkHeaders(f *faults) {
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		field := "on_denied.headers." + name
		switch value := d.Headers[name]; {
		case !spelling.IsToken(name):
			f.Add(field, "", "want header names as HTTP has them, such as Location")
		case spelling.IsReserved(canonical(name)):
			f.Add(field, "", "want no header that the interface sets or that belongs to the connection")
		case d.Redirect != "" && canonical(name) == "Location":
			f.Add(field, "", "want on_denied.redirect alone, which is the Location")
		case !spelling.IsFieldValue(value):
			f.Add(field, fault.Quote(value), "want a value without line breaks and other control characters")
		}
	}
}
