// Package usage reads the usage of a language model from a response, in several formats.
package usage

import (
	"net/http"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/decoded"
)

// Usage reads the usage in each format that was added. A nil Usage reads nothing.
type Usage struct {
	formats []budget.Format
	readers []*budget.Reader // of formats, from the start of the response on
}

// Add returns u with a format.
func (u *Usage) Add(f budget.Format) *Usage {
	if u == nil {
		u = new(Usage)
	}
	for _, known := range u.formats {
		if known == f {
			return u
		}
	}
	u.formats = append(u.formats, f)
	return u
}

// Begin starts to read a response with a header.
func (u *Usage) Begin(h http.Header, more decoded.Decoders) {
	for _, f := range u.formats {
		u.readers = append(u.readers, budget.NewReader(f, h.Get("Content-Type"), h.Get("Content-Encoding"), more))
	}
}

// Write reads the next bytes of the body.
func (u *Usage) Write(b []byte) {
	if u == nil {
		return
	}
	for _, r := range u.readers {
		_, _ = r.Write(b)
	}
}

// End ends the body.
func (u *Usage) End() {
	if u == nil {
		return
	}
	for _, r := range u.readers {
		_ = r.Close()
	}
}

// Read returns the usage so far in the format of m, and an estimate of the output.
func (u *Usage) Read(m *budget.Meter) (found budget.Usage, generated int64, err error) {
	for i, r := range u.readers {
		if u.formats[i] == m.Config().Format {
			found, err = r.Usage()
			return found, r.Generated(), err
		}
	}
	return found, 0, budget.ErrNoUsage
}
