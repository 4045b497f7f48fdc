// Package bodycost reads the cost of a request from its response.
package bodycost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/decoded"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/jsontext"
)

const (
	// maxCost is the largest cost in a response, as large as a limit.
	maxCost = 1 << 40
	// maxBody bounds the bytes that are kept of a JSON body, or of a line of a stream.
	maxBody = 1 << 20
)

// parseCost parses a number of tokens: digits alone.
func parseCost(text string) (n int64, err error) {
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil || u > maxCost {
		return 0, fmt.Errorf("%w: got %s, want a whole number from 0 to %d", budget.ErrBadUsage, fault.Quote(text), int64(maxCost))
	}
	return int64(u), nil
}

// FromHeader parses the number in the last line of a header or trailer.
func FromHeader(h http.Header, name string) (n int64, err error) {
	lines := h[http.TrailerPrefix+http.CanonicalHeaderKey(name)]
	if len(lines) == 0 {
		lines = h.Values(name)
	}
	if len(lines) == 0 {
		return 0, fmt.Errorf("%w: no header %s", budget.ErrNoUsage, name)
	}
	return parseCost(strings.Trim(lines[len(lines)-1], " \t"))
}

// A Member is a number in a JSON text; its Path is member names joined by dots. The number may be
// a string of digits.
type Member struct {
	Path  string
	n     int64
	found bool
	bad   bool   // its last value is no number
	value string // the last one, of at most maxValue bytes, if it is no object and no list
}

// maxValue bounds the bytes of the value of a Member that is no number.
const maxValue = 256

// Value returns the last number, text, true or false of a path.
func Value(members []Member, path string) (value json.RawMessage, ok bool) {
	for i := range members {
		if members[i].Path == path {
			return json.RawMessage(members[i].value), members[i].value != ""
		}
	}
	return nil, false
}

// read finds m in text, which is one JSON value. The last of several members of one name counts.
func (m *Member) read(text []byte) {
	for name := range strings.SplitSeq(m.Path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil {
			return
		}
		text = object[name]
	}
	if len(text) == 0 || string(text) == "null" {
		return
	}
	if len(text) <= maxValue && text[0] != '{' && text[0] != '[' {
		m.value = string(text)
	}
	if digits := bytes.Trim(text, `"`); len(digits) > 0 {
		text = digits
	}
	n, err := parseCost(string(text))
	if m.bad = err != nil; !m.bad {
		m.n, m.found = n, true
	}
}

// Sum returns the sum of members. The error is the reason why one is missing.
func Sum(members []Member, paths []string) (n int64, err error) {
	for _, path := range paths {
		i := slices.IndexFunc(members, func(m Member) bool { return m.Path == path })
		switch {
		case i >= 0 && members[i].found:
			n = min(n+members[i].n, maxCost)
		case i >= 0 && members[i].bad:
			err = fmt.Errorf("%w: %s: want a whole number from 0 to %d", budget.ErrBadUsage, path, int64(maxCost))
		case err == nil:
			err = fmt.Errorf("%w: no number at %s", budget.ErrNoUsage, path)
		}
	}
	return n, err
}

// A Body parses a response while it is written: JSON, or a stream of events in which each data
// line is a JSON text and the last number counts. It keeps at most maxBody bytes.
type Body struct {
	members []Member
	stream  bool
	text    []byte // what filter keeps of the body, or of the current line
	long    bool   // text was longer than maxBody, and is empty
	filter  jsontext.Filter
	decoded *decoded.Writer
}

// NewBody returns nil for a response that cannot be parsed.
func NewBody(h http.Header, members []Member, more decoded.Decoders) *Body {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	stream := media == "text/event-stream"
	readable := stream || media == "application/json" || strings.HasSuffix(media, "+json")
	if err != nil || !readable {
		return nil
	}
	b := &Body{members: members, stream: stream}
	if b.decoded, err = decoded.New(h.Get("Content-Encoding"), more, b.parse); err != nil {
		return nil
	}
	return b
}

// Write reads the next bytes of the body.
func (b *Body) Write(p []byte) { _, _ = b.decoded.Write(p) }

// parse reads the next decoded bytes.
func (b *Body) parse(p []byte) {
	for b.stream {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			break
		}
		b.keep(p[:i])
		b.endText()
		p = p[i+1:]
	}
	b.keep(p)
}

func (b *Body) keep(p []byte) {
	if b.long {
		return
	}
	if b.text = b.filter.Append(b.text, p); len(b.text) > maxBody {
		b.text, b.long = nil, true
	}
}

// End ends the body.
func (b *Body) End() {
	_ = b.decoded.Close() // the text that was decoded counts
	b.endText()
}

// endText parses the complete text.
func (b *Body) endText() {
	text, ok := b.text, !b.long
	if b.stream {
		text, ok = bytes.CutPrefix(text, []byte("data:"))
	}
	if ok {
		for i := range b.members {
			b.members[i].read(text)
		}
	}
	b.text, b.long, b.filter = b.text[:0], false, jsontext.Filter{}
}
