package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/floodweir/weir"
)

// A Config configures a Reader. Its zero value detects the format.
type Config struct {
	// Format is the name of a format, one of Formats; detected if empty.
	Format string

	// Layout is a log_format of nginx, a LogFormat of Apache or a format of Envoy; not used if
	// empty.
	Layout string

	// Sampled reads a log that says that it misses requests. Without it, that is an error.
	Sampled bool

	// Growing selects the format by the first lines that are there, for a log that grows.
	Growing bool
}

// Formats are the names of formats.
var Formats = []string{"vhost_combined", "combined", "common", "envoy", "json", "csv"}

// Stats counts the lines of a log.
type Stats struct {
	Lines    int    `json:"lines"`    // without empty ones
	Rejected int    `json:"rejected"` // lines that do not have the format
	Example  string `json:"example,omitempty"`
}

// A Reader reads the entries of one log in its order.
type Reader struct {
	Format string // of the log
	Stats  Stats

	c      Config
	p      parser
	name   string
	in     *bufio.Reader
	parse  func(p *parser, line []byte, e *Entry) bool
	csv    *csv.Reader
	fields []field // of the columns of CSV
	err    error
	long   []byte
	first  int64
	denied int // lines of the decision log, before the first one that was not denied
}

const (
	bufferSize = 1 << 20
	maxLine    = 1 << 20
	sample     = 20 // lines that select the format
)

// NewReader returns a reader of a log, which may be compressed by gzip. An error wraps
// [weir.ErrInvalid], or is one of in.
func NewReader(name string, in io.Reader, c Config) (*Reader, error) {
	r := &Reader{c: c, name: name, in: bufio.NewReaderSize(in, bufferSize), p: parser{texts: map[string]string{}}}
	if magic, _ := r.in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(r.in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.in = bufio.NewReaderSize(z, bufferSize)
	}
	start, err := peek(r.in, c.Growing)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.HasPrefix(start, []byte("\xef\xbb\xbf")) {
		_, _ = r.in.Discard(3)
		start = start[3:]
	}
	if err := r.choose(c, firstLines(start, errors.Is(err, io.EOF))); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if lines := firstLines(start, true); len(lines) > 0 {
		var e Entry
		if e.reset(); r.csv == nil && r.parse(&r.p, lines[0], &e) && e.finish() {
			r.first = e.At
		}
	}
	return r, nil
}

// peek returns the beginning of a log. That of a growing one has a line.
func peek(in *bufio.Reader, growing bool) (start []byte, err error) {
	for n := 1; growing && n <= bufferSize/2; n = in.Buffered() + 1 {
		_, err = in.Peek(n)
		if start, _ = in.Peek(in.Buffered()); err != nil || bytes.IndexByte(start, '\n') >= 0 {
			return start, err
		}
	}
	return in.Peek(bufferSize / 2)
}

// firstLines returns the first lines that are not empty. Without the end of the log, the last
// line may be incomplete.
func firstLines(b []byte, whole bool) (lines [][]byte) {
	for len(b) > 0 && len(lines) < sample {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) > 0 && (ended || whole) {
			lines = append(lines, line)
		}
		b = rest
	}
	return lines
}

// choose selects the format.
func (r *Reader) choose(c Config, lines [][]byte) error {
	if c.Layout != "" {
		l, err := compile(c.Layout)
		if err == nil && c.Format != "" {
			err = fmt.Errorf("format: %w: got a name and a log format, want one of them", weir.ErrInvalid)
		}
		if err != nil {
			return err
		}
		r.Format, r.parse = l.name, l.parse
		return nil
	}
	all := map[string]func(p *parser, line []byte, e *Entry) bool{"json": jsonLine}
	for _, l := range layouts {
		all[l.name] = l.parse
	}
	if len(lines) == 0 {
		r.Format, r.parse = "json", jsonLine // no line has any format
		return nil
	}
	for _, name := range Formats {
		parse := all[name]
		switch {
		case c.Format != "" && c.Format != name:
			continue
		case name == "csv":
			if err := r.header(lines[0]); err == nil {
				r.Format = name
				return nil
			} else if c.Format != "" {
				return err
			}
			continue
		case c.Format == "" && !r.fits(parse, lines):
			continue
		}
		r.Format, r.parse = name, parse
		return nil
	}
	if c.Format != "" {
		return fmt.Errorf("format: %w: got %q, want one of %s", weir.ErrInvalid, c.Format, strings.Join(Formats, ", "))
	}
	return fmt.Errorf("line 1: %w: got %.100q, want a line of %s, or of a log format that is set", weir.ErrInvalid, lines[0], strings.Join(Formats, ", "))
}

// fits reports whether half of the lines or more have a format.
func (r *Reader) fits(parse func(p *parser, line []byte, e *Entry) bool, lines [][]byte) bool {
	fit := 0
	for _, line := range lines {
		var e Entry
		e.reset()
		if parse(&r.p, line, &e) && (e.finish() || e.server) {
			fit++
		}
	}
	return 2*fit >= len(lines)
}

// columns are the names in the header of CSV.
var columns = map[string]field{
	"time": start, "client_ip": client, "method": method, "host": host, "path": path, "status": status,
	"key": key, "cost": cost, "duration": seconds, "user_agent": agent,
	"retry_after": retry, "sample_rate": sampled,
}

// header reads the first line of CSV.
func (r *Reader) header(line []byte) error {
	names, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return err
	}
	timed := false
	for _, name := range names {
		f := columns[strings.ToLower(strings.TrimSpace(name))]
		timed = timed || f == start
		r.fields = append(r.fields, f)
	}
	if !timed {
		r.fields = nil
		return fmt.Errorf("line 1: %w: got %.100q, want a CSV header with time, such as time,client_ip,method,host,path,status", weir.ErrInvalid, line)
	}
	r.csv = csv.NewReader(r.in)
	r.csv.ReuseRecord = true
	_, err = r.csv.Read() // the header
	return err
}

// First returns the arrival in the first line, in µs since the epoch; 0 if it is unknown, as
// for CSV.
func (r *Reader) First() int64 { return r.first }

// Next reads the next entry. It returns false at the end or after an error.
func (r *Reader) Next(e *Entry) bool {
	for r.err == nil {
		e.reset()
		ok, line := r.next(e)
		if r.err != nil {
			break
		}
		if len(line) == 0 && r.csv == nil {
			continue
		}
		r.Stats.Lines++
		switch {
		case ok && e.finish():
			if e.sample && !r.c.Sampled {
				r.err = missing("such as before %.120q", line)
				return false
			}
			if e.Outcome == "denied" && r.denied >= 0 {
				r.denied++
			} else {
				r.denied = -1
			}
			return true
		case ok && e.server:
			continue
		}
		if r.Stats.Rejected++; r.Stats.Example == "" {
			r.Stats.Example = fmt.Sprintf("%.120q", line)
		}
	}
	if errors.Is(r.err, io.EOF) && r.denied >= onlyDenials && !r.c.Sampled {
		r.err = missing("only denied ones in %d lines", r.Stats.Lines)
	}
	return false
}

// onlyDenials is the number of lines of a decision log that shows that it has only denials.
const onlyDenials = 20

// missing is the error of a log without some of the requests.
func missing(format string, args ...any) error {
	return fmt.Errorf("%w: got a log that misses requests, %s, want all: limits of a key cannot be judged by a sample of its requests", weir.ErrInvalid, fmt.Sprintf(format, args...))
}

// next parses one line.
func (r *Reader) next(e *Entry) (ok bool, line []byte) {
	if r.csv != nil {
		return r.record(e)
	}
	line = r.line()
	return len(line) > 0 && r.parse(&r.p, line, e), line
}

// line returns the next line without space at its ends.
func (r *Reader) line() []byte {
	b, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) { // longer than the buffer: not a line of a log
		r.long = append(r.long[:0], b[:128]...)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.in.ReadSlice('\n')
		}
		b = r.long
	}
	if err != nil && (len(b) == 0 || !errors.Is(err, io.EOF)) {
		r.err = err
	}
	return bytes.TrimSpace(b)
}

// record reads a line of CSV.
func (r *Reader) record(e *Entry) (ok bool, line []byte) {
	values, err := r.csv.Read()
	var bad *csv.ParseError
	switch {
	case errors.As(err, &bad) && !errors.Is(err, csv.ErrFieldCount):
		return false, []byte(bad.Error())
	case err != nil && !errors.As(err, &bad):
		r.err = err
		return false, nil
	}
	if len(values) != len(r.fields) {
		return false, []byte(strings.Join(values, ","))
	}
	for i, f := range r.fields {
		if f != skip && !r.p.set(e, f, []byte(values[i])) {
			return false, []byte(strings.Join(values, ","))
		}
	}
	return true, nil
}

// Err returns the error that ended the log, or nil at its end.
func (r *Reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%s: %w", r.name, r.err)
}
