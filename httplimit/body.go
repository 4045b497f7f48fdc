package httplimit

import (
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bodytext"
)

// A BodyLimit bounds the reading of request bodies for key parts of the sources policy.Form and
// policy.JSON. The zero value has the defaults.
type BodyLimit struct {
	// Max is the largest body in bytes; DefaultMaxBody if zero, at most 1 MiB. A larger one
	// has no values.
	Max int64

	// Timeout bounds the time until the body has arrived; DefaultBodyTimeout if zero, at most
	// a minute. A body that takes longer has no values, and the handler gets an error that
	// wraps os.ErrDeadlineExceeded.
	Timeout time.Duration
}

// The default values of a BodyLimit.
const (
	DefaultMaxBody     = 64 << 10
	DefaultBodyTimeout = 5 * time.Second
)

func (l *BodyLimit) check() error {
	switch {
	case l.Max < 0 || l.Max > 1<<20:
		return fmt.Errorf("httplimit: Body.Max: %w: got %d, want 0 to %d", weir.ErrInvalid, l.Max, 1<<20)
	case l.Timeout < 0 || l.Timeout > time.Minute:
		return fmt.Errorf("httplimit: Body.Timeout: %w: got %v, want 0 to 1m", weir.ErrInvalid, l.Timeout)
	}
	return nil
}

// Form implements [policy.BodyAttributes].
func (a *attributes) Form(name string) string {
	if f := a.format(); f.IsForm() {
		if text, ok := a.text(); ok {
			return f.Field(text, name, a.Query(name))
		}
	}
	return ""
}

// JSON implements [policy.BodyAttributes].
func (a *attributes) JSON(path string) string {
	if a.format().IsJSON() {
		if text, ok := a.text(); ok {
			return bodytext.Member(text, path)
		}
	}
	return ""
}

// format returns the format of the body, or the zero one if it cannot be read.
func (a *attributes) format() (f bodytext.Format) {
	h := a.r.Header
	coding := h["Content-Encoding"]
	if types := h["Content-Type"]; len(types) == 1 && (len(coding) == 0 || len(coding) == 1 && strings.EqualFold(coding[0], "identity")) {
		f = bodytext.FormatOf(types[0])
	}
	return f
}

// text returns the whole body, or false if it is too long or too slow.
func (a *attributes) text() ([]byte, bool) {
	if a.memory == nil {
		return nil, false
	}
	text, err := a.body.Read(a.w, a.r, a.limit.Max, a.limit.Timeout, a.memory)
	return text, err == nil
}
