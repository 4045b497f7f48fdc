package httplimit

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/floodweir/weir/internal/jsontext"
)

const (
	// maxCost is the largest cost in a response, as large as a limit.
	maxCost = 1 << 40
	// maxBody bounds the bytes that are kept of a JSON body, or of a line of a stream.
	maxBody = 1 << 20
)

// parseCost parses a number of tokens: digits alone.
func parseCost(text string) (n int64, ok bool) {
	u, err := strconv.ParseUint(text, 10, 64)
	return int64(min(u, maxCost)), err == nil && u <= maxCost
}

// headerCost parses the number in the last line of a header or trailer.
func headerCost(h http.Header, name string) (n int64, ok bool) {
	lines := h[http.TrailerPrefix+http.CanonicalHeaderKey(name)]
	if len(lines) == 0 {
		lines = h.Values(name)
	}
	if len(lines) == 0 {
		return 0, false
	}
	return parseCost(trim(lines[len(lines)-1]))
}

// A member is a number in a JSON text; its path is member names joined by dots.
type member struct {
	path  string
	n     int64
	found bool
}

// read finds m in text, which is one JSON value. The last of several members of one name counts.
func (m *member) read(text []byte) {
	for name := range strings.SplitSeq(m.path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil {
			return
		}
		text = object[name]
	}
	if n, ok := parseCost(string(text)); ok {
		m.n, m.found = n, true
	}
}

// A body parses a response while it is written: JSON, or a stream of events in which each data
// line is a JSON text and the last number counts. It keeps at most maxBody bytes.
type body struct {
	members []member
	stream  bool
	text    []byte // what filter keeps of the body, or of the current line
	long    bool   // text was longer than maxBody, and is empty
	filter  jsontext.Filter
}

// newBody returns nil for a response that cannot be parsed.
func newBody(h http.Header, members []member) *body {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := h.Get("Content-Encoding")
	stream := media == "text/event-stream"
	readable := stream || media == "application/json" || strings.HasSuffix(media, "+json")
	if err != nil || !readable || encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil
	}
	return &body{members: members, stream: stream}
}

func (b *body) write(p []byte) {
	for b.stream {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			break
		}
		b.keep(p[:i])
		b.end()
		p = p[i+1:]
	}
	b.keep(p)
}

func (b *body) keep(p []byte) {
	if b.long {
		return
	}
	if b.text = b.filter.Append(b.text, p); len(b.text) > maxBody {
		b.text, b.long = nil, true
	}
}

// end parses the complete text.
func (b *body) end() {
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
