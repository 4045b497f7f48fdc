package plainhttp

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
)

// A verdict says what a server does with the bytes that have arrived.
type verdict int

const (
	plain      verdict = iota
	incomplete         // more bytes may make it plain
	other              // a request for the http.Server
)

// maxShared is the largest header in bytes whose values share one string. A handler that keeps a
// value keeps that string. The values of larger headers are strings of their own.
const maxShared = 512

// A body is the body of a request, which has arrived completely.
type body struct {
	mu     sync.Mutex // a transport may read the body when the handler has returned
	rest   []byte
	closed bool
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.rest = true, nil
	return nil
}

// A message holds the parts of a request, in one allocation.
type message struct {
	r    http.Request
	url  url.URL
	body body
	ctx  requestContext
	size int // of the request, in bytes
}

// parse parses the request at the begin of buf.
func parse(buf []byte) (*message, verdict) {
	end := bytes.Index(buf, []byte("\r\n\r\n"))
	if end < 0 {
		if isOther(buf) {
			return nil, other
		}
		return nil, incomplete
	}
	head, text := buf[:end+2], "" // each line with its end
	if len(head) <= maxShared {
		text = string(head)
	}
	m := new(message)
	m.r = *new(http.Request).WithContext(&m.ctx)
	line := bytes.IndexByte(head, '\n') + 1
	if !m.parseLine(head[:line], text) {
		return nil, other
	}
	length, ok := m.parseFields(head, line, text)
	if !ok {
		return nil, other
	}
	m.size = end + 4 + length
	switch {
	case m.size > len(buf):
		return nil, other // the http.Server streams it
	case length > 0:
		m.body.rest = buf[end+4 : m.size]
		m.r.Body, m.r.ContentLength = &m.body, int64(length)
	default:
		m.r.Body = http.NoBody
	}
	return m, plain
}

// isOther reports whether the begin of a request cannot become plain. The http.Server may then
// answer without the rest.
func isOther(buf []byte) bool {
	last := bytes.LastIndexByte(buf, '\n')
	switch {
	case len(buf) >= maxRequest:
		return true
	case last < 0:
		return false
	case last == 0 || buf[last-1] != '\r':
		return true
	}
	lines := buf[:last+1]
	from := bytes.IndexByte(lines, '\n') + 1
	if !new(message).parseLine(lines[:from], "") {
		return true
	}
	for from < len(lines) {
		colon, to := scanLine(lines, from)
		if colon < 0 {
			return true
		}
		from = to + 2
	}
	return false
}

// substring returns head[from:to], which is a part of text if that is not empty.
func substring(head []byte, text string, from, to int) string {
	if text != "" {
		return text[from:to]
	}
	return string(head[from:to])
}

const (
	version = "HTTP/1.1"
	lineEnd = " " + version + "\r\n"
)

// parseLine parses a request line. text begins with it, or is empty.
func (m *message) parseLine(line []byte, text string) bool {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 || !bytes.HasSuffix(line, []byte(lineEnd)) {
		return false
	}
	from, to := space+1, len(line)-len(lineEnd)
	if from >= to || line[from] != '/' {
		return false
	}
	r := &m.r
	if r.Method = methodOf(line[:space]); r.Method == "" || r.Method == http.MethodConnect {
		return false
	}
	r.RequestURI = substring(line, text, from, to)
	r.Proto, r.ProtoMajor, r.ProtoMinor = version, 1, 1
	return m.parseTarget()
}

// methodOf returns a method, or "" if it has an invalid byte.
func methodOf(b []byte) string {
	switch string(b) {
	case http.MethodGet:
		return http.MethodGet
	case http.MethodPost:
		return http.MethodPost
	}
	for _, c := range b {
		if classes[c]&tokenByte == 0 {
			return ""
		}
	}
	return string(b)
}

// parseTarget sets the URL from RequestURI.
func (m *message) parseTarget() bool {
	r := &m.r
	target := r.RequestURI
	path, query, simple := target, "", !strings.HasPrefix(target, "//")
	for i := 0; i < len(target); i++ {
		class := classes[target[i]]
		switch {
		case class&visibleByte == 0:
			return false
		case class&pathByte != 0:
		case target[i] == '?' && i+1 < len(target) && simple && len(path) == len(target):
			path, query = target[:i], target[i+1:]
		case len(path) == len(target):
			simple = false
		}
	}
	if simple {
		m.url.Path, m.url.RawQuery = path, query
		r.URL = &m.url
		return true
	}
	var err error
	r.URL, err = url.ParseRequestURI(target)
	return err == nil
}

// parseFields parses the lines of head from an index, and returns the Content-Length.
func (m *message) parseFields(head []byte, from int, text string) (length int, ok bool) {
	r := &m.r
	lines := bytes.Count(head[from:], []byte{'\n'})
	values := make([]string, max(0, lines-1)) // Host is no field of r.Header
	r.Header = make(http.Header, len(values))
	host, sized := false, false
	for from < len(head) {
		colon, to := scanLine(head, from)
		if colon < 0 {
			return 0, false
		}
		name := nameOf(head[from:colon], substring(head, text, from, colon))
		begin, end := trim(head, colon+1, to)
		value := substring(head, text, begin, end)
		switch name {
		case "Host":
			if host || !IsHost(value) {
				return 0, false
			}
			host = true
			r.Host = value
			from = to + 2
			continue
		case "Content-Length":
			n := lengthOf(value)
			if sized || n < 0 {
				return 0, false
			}
			sized, length = true, n
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return 0, false
			}
		case "Transfer-Encoding", "Upgrade", "Expect", "Te", "Trailer", "Http2-Settings", "Keep-Alive", "Proxy-Connection":
			return 0, false
		}
		if known := r.Header[name]; known != nil {
			r.Header[name] = append(known, value)
		} else if len(values) == 0 {
			return 0, false // without a Host
		} else {
			values[0] = value
			r.Header[name], values = values[:1:1], values[1:]
		}
		from = to + 2
	}
	if p := r.Header["Pragma"]; len(p) > 0 && p[0] == "no-cache" && r.Header["Cache-Control"] == nil {
		r.Header["Cache-Control"] = []string{"no-cache"} // as the http.Server does
	}
	return length, host
}

// scanLine returns the index of the colon of the line at an index, and of its CR; colon is -1 if
// the line is unusual.
func scanLine(head []byte, from int) (colon, end int) {
	i := from
	for classes[head[i]]&tokenByte != 0 { // the last byte of head is no such byte
		i++
	}
	if i == from || head[i] != ':' {
		return -1, 0
	}
	colon = i
	for i++; classes[head[i]]&valueByte != 0; i++ {
	}
	if head[i] != '\r' || head[i+1] != '\n' { // head ends in both
		return -1, 0
	}
	return colon, i
}

// trim returns the bounds of head[from:to] without spaces around it.
func trim(head []byte, from, to int) (int, int) {
	for from < to && head[from] == ' ' {
		from++
	}
	for to > from && head[to-1] == ' ' {
		to--
	}
	return from, to
}

// nameOf returns the canonical form of a field name; text is the same.
func nameOf(name []byte, text string) string {
	upper := true
	for _, c := range name {
		if upper && c >= 'a' && c <= 'z' || !upper && c >= 'A' && c <= 'Z' {
			return textproto.CanonicalMIMEHeaderKey(text)
		}
		upper = c == '-'
	}
	return text
}

// lengthOf returns a Content-Length, or -1 if it is unusual or very large.
func lengthOf(s string) int {
	if s == "" || len(s) > 9 {
		return -1
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// IsHost reports whether s is not empty and has only the bytes of names and addresses with ports.
func IsHost(s string) bool {
	for i := 0; i < len(s); i++ {
		if classes[s[i]]&hostByte == 0 {
			return false
		}
	}
	return s != ""
}

// The classes of bytes.
const (
	tokenByte   = 1 << iota // of methods and names of fields
	visibleByte             // of targets
	pathByte                // of paths that have no other spelling
	valueByte               // of values of fields
	hostByte                // of names and addresses with ports
)

var classes = classify()

func classify() (all [256]uint8) {
	for c := '!'; c <= '~'; c++ {
		all[c] |= visibleByte | valueByte
	}
	all[' '] |= valueByte
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for bits, text := range map[uint8]string{
		tokenByte: letters + "!#$%&'*+-.^_`|~", pathByte: letters + "/-_.~", hostByte: letters + "-._:[]",
	} {
		for _, c := range text {
			all[c] |= bits
		}
	}
	return all
}
