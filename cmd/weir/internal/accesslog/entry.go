package accesslog

import (
	"bytes"
	"net/netip"
	"strconv"
	"time"
)

// An Entry is one request of a log. Values that the log does not have are zero.
type Entry struct {
	At       int64 // arrival, in µs since the epoch
	Coarse   bool  // At is a whole second, because the log has no finer times
	Client   netip.Addr
	Method   string
	Host     string
	Path     string // with the query
	Agent    string
	Status   int
	Duration int64  // in µs; -1 if unknown
	Key      string // column key: the value of the header or cookie in the policy's key
	Cost     int64  // column cost; 1 if unknown
	Headers  string // a JSON object of header fields; "" if unknown

	// RetryAfter is the wait that a response asks for, in µs; 0 if unknown.
	RetryAfter int64

	// Policy and Outcome are of a line of the decision log. Lines of policies in shadow mode
	// are left out.
	Policy, Outcome string

	end    bool // At is the end of the request
	envoy  bool // a duration in seconds is in ms
	at     bool // At is set
	server bool // the line is of another kind, such as an error log in JSON
	sample bool // the log misses requests before this one
}

// A field is a kind of value in a line.
type field uint8

const (
	skip       field = iota
	start            // the arrival
	finish           // the end of the request
	startEnvoy       // the arrival in JSON of Envoy, whose durations are in ms
	client           // an address, with or without a port
	forwarded        // a list of addresses: the last one is the client of the proxy that logs
	method
	host
	path
	request // METHOD PATH PROTOCOL
	status
	seconds
	millis
	micros
	nanos
	agent
	key
	cost
	headers
	query // after ?, if the path has none
	policy
	outcome
	logger
	retry
	sampled    // one of how many requests the log has, or their share
	suppressed // lines left out of the decision log
)

// A parser holds state between lines: caches of times and texts.
type parser struct {
	texts map[string]string
	hour  []byte // DD/Mon/YYYY:HH of the last time, and its zone
	zone  []byte
	base  int64 // of that hour, in seconds
}

// maxTexts bounds the texts that are kept once for many lines.
const maxTexts = 1 << 14

// text returns a string that equal values share.
func (p *parser) text(b []byte) string {
	if s, ok := p.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(p.texts) < maxTexts {
		p.texts[s] = s
	}
	return s
}

// reset makes e an entry without values.
func (e *Entry) reset() { *e = Entry{Duration: -1, Cost: 1} }

// set stores a value. It reports false for a value that is invalid.
func (p *parser) set(e *Entry, f field, v []byte) bool {
	if len(v) == 0 || len(v) == 1 && v[0] == '-' {
		return f != start && f != finish && f != startEnvoy
	}
	switch f {
	case start, finish, startEnvoy:
		var ok bool
		e.At, e.Coarse, ok = p.time(v)
		e.at, e.end, e.envoy = ok, f == finish, f == startEnvoy
		return ok
	case client:
		return p.address(e, v)
	case forwarded:
		if i := bytes.LastIndexByte(v, ','); i >= 0 {
			v = v[i+1:]
		}
		return p.address(e, bytes.TrimSpace(v))
	case request:
		e.Method, e.Path = p.requestLine(v)
	case method:
		e.Method = p.text(v)
	case host:
		e.Host = p.text(v)
	case path:
		e.Path = string(v)
	case query:
		if bytes.IndexByte([]byte(e.Path), '?') < 0 {
			e.Path += "?" + string(bytes.TrimPrefix(v, []byte("?")))
		}
	case agent:
		e.Agent = p.text(v)
	case key:
		e.Key = p.text(v)
	case headers:
		e.Headers = string(v)
	case policy:
		e.Policy = p.text(v)
	case outcome:
		e.Outcome = p.text(v)
	case status:
		n, ok := digits(v)
		e.Status = int(n)
		return ok && n <= 999
	case cost:
		n, ok := digits(v)
		e.Cost = n
		return ok && n <= 1<<40
	case seconds, millis, micros, nanos:
		return p.duration(e, f, v)
	case retry: // or a date, which is not used
		if d, err := time.ParseDuration(string(v)); err == nil {
			e.RetryAfter = d.Microseconds()
		} else if n, ok := digits(v); ok {
			e.RetryAfter = min(n, 1<<32) * 1e6
		}
	case sampled, suppressed:
		n, err := strconv.ParseFloat(string(v), 64)
		e.sample = e.sample || err == nil && n > 0 && (n != 1 || f == suppressed)
	}
	return true
}

func (p *parser) duration(e *Entry, f field, v []byte) bool {
	d, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(d >= 0) || d > 1e15 {
		return false
	}
	e.Duration = int64(d * map[field]float64{seconds: 1e6, millis: 1e3, micros: 1, nanos: 1e-3}[f])
	return true
}

// address reads an address with or without a port. A name, such as localhost or unix:, is no
// address and leaves the client unknown.
func (p *parser) address(e *Entry, v []byte) bool {
	text := p.text(v)
	if a, err := netip.ParseAddr(text); err == nil {
		e.Client = a.Unmap().WithZone("")
	} else if a, err := netip.ParseAddrPort(text); err == nil {
		e.Client = a.Addr().Unmap().WithZone("")
	}
	return true
}

// requestLine splits METHOD PATH PROTOCOL. A line that a server could not read has no path.
func (p *parser) requestLine(v []byte) (method, path string) {
	m, rest, ok := bytes.Cut(v, []byte(" "))
	if !ok || len(m) == 0 || len(m) > 32 {
		return "", ""
	}
	if i := bytes.LastIndexByte(rest, ' '); i >= 0 && bytes.HasPrefix(rest[i+1:], []byte("HTTP/")) {
		rest = rest[:i]
	}
	return p.text(m), string(rest)
}

// digits reads a whole number.
func digits(v []byte) (n int64, ok bool) {
	if len(v) == 0 || len(v) > 18 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// finish derives the arrival. It reports whether the entry is complete.
func (e *Entry) finish() bool {
	if e.envoy && e.Duration > 0 {
		e.Duration /= 1000
	}
	if e.end && e.Duration > 0 {
		e.At -= e.Duration
		e.Coarse = e.Coarse && e.Duration%1e6 == 0
	}
	return e.at && !e.server
}

// time reads an instant: as in CLF, RFC 3339, or a number of seconds, ms, µs or ns since the
// epoch. It reports whether the text has whole seconds only.
func (p *parser) time(v []byte) (us int64, coarse, ok bool) {
	switch {
	case len(v) == 26 && v[2] == '/':
		return p.clf(v)
	case len(v) > 10 && v[4] == '-':
		t, err := time.Parse(time.RFC3339Nano, string(v))
		if err != nil {
			t, err = time.Parse("2006-01-02T15:04:05.999999999Z0700", string(v))
		}
		if err != nil {
			t, err = time.Parse("2006-01-02 15:04:05.999999999", string(v))
		}
		return t.UnixMicro(), bytes.IndexByte(v, '.') < 0, err == nil && t.Year() >= 1970
	}
	whole, fraction, point := bytes.Cut(v, []byte("."))
	n, ok := digits(whole)
	if !ok {
		f, err := strconv.ParseFloat(string(v), 64) // such as 1.7e9
		return int64(f * 1e6), false, err == nil && f > 0 && f < 1e11
	}
	switch {
	case n >= 1e17:
		return n / 1e3, false, true
	case n >= 1e14:
		return n, false, true
	case n >= 1e11:
		return n * 1e3, false, true
	}
	us = n * 1e6
	for i, unit := 0, int64(1e5); point && i < len(fraction); i, unit = i+1, unit/10 {
		if fraction[i] < '0' || fraction[i] > '9' {
			return 0, false, false
		}
		us += int64(fraction[i]-'0') * unit
	}
	return us, !point, true
}

// clf reads 10/Oct/2000:13:55:36 -0700.
func (p *parser) clf(v []byte) (us int64, coarse, ok bool) {
	if !bytes.Equal(v[:14], p.hour) || !bytes.Equal(v[21:], p.zone) {
		t, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(v))
		if err != nil || t.Year() < 1970 {
			return 0, false, false
		}
		p.hour, p.zone = append(p.hour[:0], v[:14]...), append(p.zone[:0], v[21:]...)
		p.base = t.Unix() - int64(t.Minute()*60+t.Second())
	}
	minute, ok1 := digits(v[15:17])
	second, ok2 := digits(v[18:20])
	if !ok1 || !ok2 || v[14] != ':' || v[17] != ':' || v[20] != ' ' || minute > 59 || second > 59 {
		return 0, false, false
	}
	return (p.base + minute*60 + second) * 1e6, true, true
}
