package stream

import (
	"mime"

	"github.com/floodweir/weir/budget"
)

// A Config configures a Relay.
type Config struct {
	// Format is the form of the stream; it is recognized if empty or budget.Auto.
	Format budget.Format

	// Request is the request of the stream.
	Request budget.ModelRequest

	// HideUsage removes the event with the usage from chat completions.
	HideUsage bool

	// Read, if not nil, gets all bytes of the stream.
	Read func(p []byte)

	// Extend, if not nil, is called after each event but the last. It reports whether the
	// stream continues, and otherwise whether it ends with an error.
	Extend func() (ok, fail bool)

	// Usage, if not nil, returns the usage so far, for the last events.
	Usage func() budget.Usage
}

// A Relay passes on a stream of server-sent events, or of lines with JSON. It is not safe for
// concurrent use.
type Relay struct {
	c     Config
	split splitter
	state state
	held  []byte // the current event, with HideUsage
	out   []byte // for several events
	ended bool
}

// maxHeld bounds the bytes that are held of an event with HideUsage. A longer event has content.
const maxHeld = 16 << 10

// New returns a Relay for a response with a Content-Type, or nil if that is no stream.
func New(contentType string, c Config) *Relay {
	r := &Relay{c: c}
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "text/event-stream":
	case "application/x-ndjson", "application/jsonl":
		r.split.lines = true
	default:
		return nil
	}
	r.state.format = c.Format
	if r.state.format == "" {
		r.state.format = budget.Auto
	}
	return r
}

// Ended reports whether the Relay ended the stream.
func (r *Relay) Ended() bool { return r.ended }

// Next processes the next bytes of the stream and returns those to send, valid until the next call.
// After the end it returns none.
func (r *Relay) Next(p []byte) []byte {
	if r.ended {
		return nil
	}
	whole := p
	r.out = r.out[:0]
	for len(p) > 0 && !r.ended {
		n, data, complete := r.split.next(p)
		if r.c.Read != nil {
			r.c.Read(p[:n])
		}
		if r.c.HideUsage {
			r.held = append(r.held, p[:n]...)
		}
		p = p[n:]
		if complete {
			r.state.read(data)
		}
		if r.c.HideUsage {
			if complete && r.state.usageOnly {
				r.held = r.held[:0]
			}
			if complete || len(r.held) > maxHeld {
				r.out, r.held = append(r.out, r.held...), r.held[:0]
			}
		}
		if !complete || len(data) == 0 || r.state.finished || r.c.Extend == nil {
			continue
		}
		if ok, fail := r.c.Extend(); !ok {
			if !r.c.HideUsage {
				r.out = append(r.out, whole[:len(whole)-len(p)]...)
			}
			r.out = append(r.out, r.end(fail)...)
			r.ended = true
		}
	}
	if r.ended || r.c.HideUsage {
		return r.out
	}
	return whole
}

// Close returns the bytes that are held at the end of the stream.
func (r *Relay) Close() []byte {
	held := r.held
	r.held = nil
	if r.ended {
		return nil
	}
	return held
}

// end returns the last events.
func (r *Relay) end(fail bool) []byte {
	var u budget.Usage
	if r.c.Usage != nil {
		u = r.c.Usage()
	}
	if fail || r.state.open() || r.c.Request.Structured {
		return r.state.fail(r.split.lines)
	}
	return r.state.finish(u, r.c.Request.Usage, r.split.lines)
}

// maxEvent bounds the bytes that are kept of the data of an event. A longer one is not read.
const maxEvent = 1 << 20

// A splitter finds the ends of events, and of lines.
type splitter struct {
	lines  bool // each line is an event
	data   []byte
	prefix int  // bytes of the current line that match "data:"
	line   int  // bytes of the current line
	other  bool // the current line has another field
	cr     bool // the last byte was a carriage return
	done   bool // data is that of a complete event
	long   bool
}

const field = "data:"

// next returns the number of bytes of p until the end of the current event. If it is complete, data
// has its lines; none for an event without data.
func (s *splitter) next(p []byte) (n int, data []byte, complete bool) {
	if s.done {
		s.data, s.done, s.long = s.data[:0], false, false
	}
	for i, c := range p {
		if c == '\n' && s.cr {
			s.cr = false
			continue
		}
		s.cr = c == '\r'
		if c != '\n' && c != '\r' {
			s.add(c)
			continue
		}
		end := s.lines && s.line > 0 || !s.lines && s.line == 0
		s.prefix, s.line, s.other = 0, 0, false
		if end {
			s.done = true
			if s.long {
				return i + 1, s.data[:0], true
			}
			return i + 1, s.data, true
		}
	}
	return len(p), nil, false
}

// add processes a byte within a line.
func (s *splitter) add(c byte) {
	s.line++
	switch {
	case s.lines:
	case s.other:
		return
	case s.prefix < len(field):
		s.other = c != field[s.prefix]
		s.prefix++
		return
	}
	if len(s.data) < maxEvent {
		s.data = append(s.data, c)
	} else {
		s.long = true
	}
}
