package httplimit

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const (
	// maxTold is the largest cost that a response can tell, as large as a limit.
	maxTold = 1 << 40
	// maxBody is the most that is kept of a body in JSON, or of a line of a stream, to
	// find a number in it.
	maxBody = 1 << 20
)

// whole reads a number of tokens: digits alone.
func whole(text string) (n int64, ok bool) {
	u, err := strconv.ParseUint(text, 10, 64)
	return int64(min(u, maxTold)), err == nil && u <= maxTold
}

// headerTells reads a number in the last line of a header or trailer of an answer.
func headerTells(h http.Header, name string) (n int64, ok bool) {
	lines := h[http.TrailerPrefix+http.CanonicalHeaderKey(name)]
	if len(lines) == 0 {
		lines = h.Values(name)
	}
	if len(lines) == 0 {
		return 0, false
	}
	return whole(trim(lines[len(lines)-1]))
}

// A member is a number in a JSON text, named by members joined by dots.
type member struct {
	path string
	n    int64
	told bool
}

// read looks for m in text. It has to be whole and alone; where an object has a member
// twice the last one counts.
func (m *member) read(text []byte) {
	for name := range strings.SplitSeq(m.path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil {
			return
		}
		text = object[name]
	}
	if n, ok := whole(string(text)); ok {
		m.n, m.told = n, true
	}
}

// A body is read as it passes: JSON, or a stream of events of which each data line is
// a JSON text and the last one that tells counts. No more than maxBody of it is kept.
type body struct {
	members []member
	stream  bool
	text    []byte // what skim keeps of the whole body, or of the line that has begun
	long    bool   // text was longer than maxBody, and is empty
	skim    skim
}

// newBody is nil for an answer that cannot be read.
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
	if b.text = b.skim.append(b.text, p); len(b.text) > maxBody {
		b.text, b.long = nil, true
	}
}

// end reads the text, which is whole.
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
	b.text, b.long, b.skim = b.text[:0], false, skim{}
}
