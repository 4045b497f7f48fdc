package accesslog

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/floodweir/weir"
)

// A layout is the compiled format of lines of text: literals and the fields between them.
type layout struct {
	name    string
	first   string // before the first field
	pieces  []piece
	partial bool // text after the last piece is ignored
}

// A piece is a field and the literal that ends it.
type piece struct {
	field  field
	quoted bool   // the value has escapes and ends at a quote
	until  string // "" for the end of the line
}

const (
	common   = `%h %l %u %t "%r" %>s %b`
	combined = common + ` "%{Referer}i" "%{User-Agent}i"`
	envoy    = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`
)

// Known layouts, in the order of detection. Traefik's CLF is combined with more fields.
var layouts = []*layout{
	partial("combined", combined),
	partial("common", common),
	partial("vhost_combined", "%v:%p "+combined),
	must("envoy", envoy),
}

func must(name, text string) *layout {
	l, err := compile(text)
	if err != nil {
		panic(err)
	}
	l.name = name
	return l
}

func partial(name, text string) *layout {
	l := must(name, text)
	l.partial = true
	return l
}

// variables are the fields of nginx, Apache and Envoy. Others are skipped.
var variables = map[string]field{
	"$remote_addr": client, "$realip_remote_addr": skip, "$http_x_forwarded_for": forwarded,
	"$time_local": finish, "$time_iso8601": finish, "$msec": finish, "$request_time": seconds,
	"$request": request, "$request_method": method, "$request_uri": path, "$uri": path, "$args": query, "$query_string": query,
	"$status": status, "$host": host, "$http_host": host, "$server_name": skip, "$http_user_agent": agent,

	"$sent_http_retry_after": retry, "%{Retry-After}o": retry, "%RESP(RETRY-AFTER)%": retry,

	"%h": client, "%a": client, "%t": start, "%r": request, "%s": status, "%m": method, "%U": path, "%q": query,
	"%v": host, "%V": host, "%D": micros, "%T": seconds, "%{s}T": seconds, "%{ms}T": millis, "%{us}T": micros,
	"%{sec}t": start, "%{msec}t": start, "%{usec}t": start, "%{begin:sec}t": start, "%{begin:msec}t": start, "%{begin:usec}t": start,
	"%{end:sec}t": finish, "%{end:msec}t": finish, "%{end:usec}t": finish,
	"%{User-Agent}i": agent, "%{Host}i": host, "%{X-Forwarded-For}i": forwarded,

	"%START_TIME%": start, "%REQ(:METHOD)%": method, "%REQ(:PATH)%": path, "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%": path,
	"%RESPONSE_CODE%": status, "%DURATION%": millis, "%REQ(X-FORWARDED-FOR)%": forwarded, "%REQ(USER-AGENT)%": agent,
	"%REQ(:AUTHORITY)%": host, "%DOWNSTREAM_REMOTE_ADDRESS%": client, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%": client,
}

var (
	nginxVariable  = regexp.MustCompile(`\$\{?\w+\}?`)
	apacheVariable = regexp.MustCompile(`%[<>!0-9,]*(?:\{[^}]*\})?\w`)
	envoyVariable  = regexp.MustCompile(`%[A-Z_]+(?:\([^)]*\))?(?::\d+)?%`)
	modifiers      = regexp.MustCompile(`^%[<>!0-9,]+`)
)

// compile reads a log_format of nginx, a LogFormat of Apache or a format of Envoy.
func compile(text string) (*layout, error) {
	text = strings.TrimSuffix(text, `\n`)
	syntax := nginxVariable
	switch {
	case envoyVariable.MatchString(text):
		syntax = envoyVariable
	case !strings.Contains(text, "$"):
		syntax = apacheVariable
		text = strings.ReplaceAll(text, `\"`, `"`)
		text = regexp.MustCompile(`%t\b`).ReplaceAllString(text, "[%t]")
	}
	l := &layout{name: "custom"}
	at, timed, preceding := 0, false, ""
	for _, m := range syntax.FindAllStringIndex(text, -1) {
		name := strings.NewReplacer("${", "$", "}", "}").Replace(text[m[0]:m[1]])
		if strings.HasPrefix(name, "$") {
			name = strings.TrimSuffix(name, "}")
		} else {
			name = modifiers.ReplaceAllString(name, "%")
		}
		literal := text[at:m[0]]
		if len(l.pieces) == 0 {
			l.first = literal
		} else {
			if literal == "" {
				return nil, fmt.Errorf("log format: %w: %s directly after another variable: want a text between them", weir.ErrInvalid, name)
			}
			l.pieces[len(l.pieces)-1].until = literal
		}
		preceding = literal
		f := variables[name]
		timed = timed || f == start || f == finish
		l.pieces = append(l.pieces, piece{field: f, quoted: strings.HasSuffix(preceding, `"`)})
		at = m[1]
	}
	if !timed {
		return nil, fmt.Errorf("log format: %w: got %.60q, want a format of nginx, Apache or Envoy with a time, such as $time_local, %%t or %%START_TIME%%", weir.ErrInvalid, text)
	}
	l.pieces[len(l.pieces)-1].until = text[at:]
	return l, nil
}

// parse reads a line.
func (l *layout) parse(p *parser, line []byte, e *Entry) bool {
	if len(line) < len(l.first) || string(line[:len(l.first)]) != l.first {
		return false
	}
	line = line[len(l.first):]
	for i := range l.pieces {
		x := &l.pieces[i]
		end := len(line)
		switch {
		case x.until == "" && l.partial: // the last field of a longer line
			if j := bytes.IndexByte(line, ' '); j >= 0 {
				end = j
			}
		case x.until == "":
		case x.quoted && x.until[0] == '"':
			if end = closing(line); end < 0 {
				return false
			}
		default:
			if end = bytes.Index(line, []byte(x.until)); end < 0 {
				return false
			}
		}
		value, rest := line[:end], line[end:]
		if len(rest) < len(x.until) || string(rest[:len(x.until)]) != x.until {
			return false
		}
		if x.field != skip {
			if x.quoted && bytes.IndexByte(value, '\\') >= 0 {
				value = unescape(value)
			}
			if !p.set(e, x.field, value) {
				return false
			}
		}
		line = rest[len(x.until):]
	}
	return l.partial || len(line) == 0
}

// closing returns the index of the quote that ends a value, or -1.
func closing(line []byte) int {
	for i := 0; i < len(line); i++ {
		j := bytes.IndexByte(line[i:], '"')
		if j < 0 {
			return -1
		}
		k := bytes.IndexByte(line[i:i+j], '\\')
		if k < 0 {
			return i + j
		}
		i += k + 1 // the escaped byte
	}
	return -1
}

// unescape replaces the escapes of nginx and Apache: \xHH, \" and \\, \n, \t and others.
func unescape(v []byte) []byte {
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			out = append(out, v[i])
			continue
		}
		i++
		switch c := v[i]; c {
		case 'x':
			if i+2 < len(v) {
				hi, lo := strings.IndexByte(hex, lower(v[i+1])), strings.IndexByte(hex, lower(v[i+2]))
				if hi >= 0 && lo >= 0 {
					out = append(out, byte(hi<<4|lo))
					i += 2
					continue
				}
			}
			out = append(out, 'x')
		case 'n', 't', 'r', 'b', 'v':
			out = append(out, map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'v': '\v'}[c])
		default:
			out = append(out, c)
		}
	}
	return out
}

const hex = "0123456789abcdef"

func lower(c byte) byte { return c | 0x20 }
