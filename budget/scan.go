package budget

import (
	"bytes"

	"github.com/floodweir/weir/internal/jsontext"
)

const (
	// maxObject bounds the bytes that are kept of one JSON object, without its arrays and the
	// ends of its long strings.
	maxObject = 1 << 20
	// maxWord is the longest name of a member that is compared.
	maxWord = 20
)

// A scanner finds the JSON objects of a text that arrives in pieces: one body, an array of
// objects, one object on each line, or the data of events. It skips all other bytes.
type scanner struct {
	object func(text []byte) // is called with each complete object
	filter jsontext.Filter
	text   []byte // of the current object
	depth  int    // of objects
	broken bool   // an object was longer than maxObject, or did not end

	// The bytes of strings that a model generated, in the current object.
	content int
	key     [maxWord]byte
	length  int  // of the last string, in bytes
	value   bool // the current string follows a colon
	last    byte // the last byte outside of strings that is no space
	counts  bool // the current value is content
}

// contentNames are the members whose strings a model generates.
var contentNames = [][]byte{
	[]byte("content"), []byte("text"), []byte("delta"), []byte("thinking"), []byte("reasoning"), []byte("reasoning_content"),
	[]byte("partial_json"), []byte("arguments"), []byte("refusal"), []byte("response"),
}

func (s *scanner) write(p []byte) {
	for i := range p {
		if s.depth == 0 && p[i] != '{' {
			continue
		}
		quoted := s.filter.InString()
		if len(s.text) < maxObject {
			s.text = s.filter.Append(s.text, p[i:i+1])
		} else {
			s.filter.Append(s.text[:0:0], p[i:i+1])
			s.broken = true
		}
		s.count(p[i], quoted)
		switch {
		case quoted || s.filter.InString():
		case p[i] == '{':
			s.depth++
		case p[i] == '}':
			if s.depth--; s.depth == 0 {
				s.end()
			}
		}
	}
}

// end reports the current object.
func (s *scanner) end() {
	if len(s.text) < maxObject {
		s.object(s.text)
	}
	s.reset()
}

// reset drops the current object.
func (s *scanner) reset() {
	s.broken = s.broken || s.depth > 0
	s.text, s.depth, s.filter = s.text[:0], 0, jsontext.Filter{}
	s.content, s.length, s.last, s.value, s.counts = 0, 0, 0, false, false
}

// count counts c if it is content. It requires the state of the filter before and after c.
func (s *scanner) count(c byte, quoted bool) {
	switch {
	case quoted && !s.filter.InString(): // the end of a string
		s.last = '"'
	case quoted && s.value:
		if s.counts {
			s.content++
		}
	case quoted:
		if s.length < maxWord {
			s.key[s.length] = c
		}
		s.length++
	case s.filter.InString(): // the start of a string
		if s.value = s.last == ':'; s.value {
			s.counts = s.isContent()
		} else {
			s.length = 0
		}
	case c > ' ':
		s.last = c
	}
}

// isContent reports whether the last member name is one of contentNames.
func (s *scanner) isContent() bool {
	if s.length > maxWord {
		return false
	}
	for _, name := range contentNames {
		if bytes.Equal(name, s.key[:s.length]) {
			return true
		}
	}
	return false
}

// An events passes the data of server-sent events to a scanner.
type events struct {
	to     *scanner
	line   int  // bytes of the current line
	data   bool // the line begins with "data:"
	failed bool // it begins otherwise
	cr     bool // the last byte was a carriage return
}

const dataField = "data:"

func (e *events) write(p []byte) {
	for len(p) > 0 {
		if p[0] == '\n' && e.cr {
			e.cr, p = false, p[1:]
			continue
		}
		e.cr = false
		if !e.data && !e.failed && e.line < len(dataField) && p[0] != '\n' && p[0] != '\r' {
			e.failed = p[0] != dataField[e.line]
			e.line++
			e.data = e.line == len(dataField) && !e.failed
			p = p[1:]
			continue
		}
		i := bytes.IndexAny(p, "\r\n")
		text := p
		if i >= 0 {
			text = p[:i]
		}
		e.line += len(text)
		if e.data {
			e.to.write(text)
		}
		if i < 0 {
			return
		}
		if e.line == 0 { // the end of an event
			e.to.reset()
		}
		e.cr = p[i] == '\r'
		e.line, e.data, e.failed = 0, false, false
		p = p[i+1:]
	}
}
