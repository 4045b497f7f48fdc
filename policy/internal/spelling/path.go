package spelling

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Path is a compiled pattern of paths.
type Path struct {
	Pattern string // as it was written

	segments []string // in lower case; "" stands for any one segment
	rest     bool     // anything may follow
}

// Segments are what r compares with the segments of a path, "" with any one, and
// whether anything may follow. The caller does not change them.
func (r *Path) Segments() (segments []string, rest bool) { return r.segments, r.rest }

// ParsePath reads a pattern, or says what was expected instead.
func ParsePath(pattern string) (Path, string) {
	r := Path{Pattern: pattern}
	if !strings.HasPrefix(pattern, "/") {
		return r, "want a path that begins with a slash, such as /api/*"
	}
	if len(pattern) > MaxText || !utf8.ValidString(pattern) || strings.ContainsAny(pattern, "%;?#\\") || HasControl(pattern) {
		return r, fmt.Sprintf("want a path as plain text of at most %d bytes, without escapes, query and any of ; # \\", MaxText)
	}
	if pattern == "/" {
		return r, ""
	}
	names := map[string]bool{}
	segments := strings.Split(pattern[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "{$}" && last && i == 0:
			return r, ""
		case s == "*" && last:
			r.rest = true
		case s == "" && last:
			return r, fmt.Sprintf("want %s, which is the path with and without a slash at its end, or %s*, which is all below it too", strings.TrimRight(pattern, "/"), pattern)
		case s == "" || s == "." || s == "..":
			return r, "want a path without empty and dot segments: requests are compared after those are gone"
		case strings.ContainsAny(s, "{}"):
			name, ok := braced(s)
			name, rest := strings.CutSuffix(name, "...")
			if !ok || !isIdentifier(name) || rest && !last {
				return r, "want {name} as a whole segment, or {name...} as the last"
			}
			if names[name] {
				return r, fmt.Sprintf("want every wildcard once, got {%s} twice", name)
			}
			names[name] = true
			if rest {
				r.rest = true
				continue
			}
			r.segments = append(r.segments, "")
		case strings.Contains(s, "*"):
			return r, "want * as the last segment only, or {name} for any one segment"
		default:
			r.segments = append(r.segments, strings.ToLower(s))
		}
	}
	return r, ""
}

// braced is what stands between the braces of a segment.
func braced(segment string) (string, bool) {
	if len(segment) < 3 || segment[0] != '{' || segment[len(segment)-1] != '}' {
		return "", false
	}
	return segment[1 : len(segment)-1], true
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Matches reports whether r matches a reading of a path.
func (r *Path) Matches(path string) bool {
	for _, want := range r.segments {
		if path == "" {
			return false
		}
		end := strings.IndexByte(path[1:], '/') + 1
		if end == 0 {
			end = len(path)
		}
		if want != "" && want != path[1:end] {
			return false
		}
		path = path[end:]
	}
	return r.rest || path == ""
}

// Readings are what servers may take a path for, in lower case, without empty
// segments and without a slash at the end ("" is the root). Servers differ about
// escaped slashes, backslashes, dot segments and path parameters, and a way around
// a policy is a path that the policy reads in one way and the server behind it in
// another: so a policy reads it in all.
type Readings struct {
	N    int
	Text [4]string // the first N of them
}

func (r *Readings) add(s string) {
	for _, t := range r.Text[:r.N] {
		if s == t {
			return
		}
	}
	r.Text[r.N] = s
	r.N++
}

// Read makes r, which is zero, the readings of a path as it was sent. It allocates for
// unusual paths only.
func (r *Readings) Read(path string) {
	if isPlain(path) {
		if path == "/" {
			path = ""
		}
		r.add(path)
		return
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	for _, split := range []bool{true, false} {
		for _, resolve := range []bool{true, false} {
			r.add(normalize(path, split, resolve))
		}
	}
}

// isPlain reports that a path has one reading, which is itself but for the root.
func isPlain(path string) bool {
	if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c >= 'A' && c <= 'Z', c >= utf8.RuneSelf, c == '%', c == ';', c == '\\', c == '?', c == '#':
			return false
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		}
	}
	return true
}

// normalize is one reading. With split, what decodes to a slash or a backslash
// separates segments, and a path parameter ends before a dot segment is looked for;
// without, it is part of its segment. With resolve, dot segments are followed.
func normalize(path string, split, resolve bool) string {
	if split {
		path = strings.ReplaceAll(unescape(path), `\`, "/")
	}
	out := make([]byte, 0, len(path)+1)
	for segment := range strings.SplitSeq(path, "/") {
		if split {
			segment, _, _ = strings.Cut(segment, ";")
		} else {
			segment = strings.ReplaceAll(unescape(segment), "/", "\x00") // no pattern has one
		}
		if resolve && segment == ".." {
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
			continue
		}
		if !split {
			segment, _, _ = strings.Cut(segment, ";")
		}
		if segment == "" || resolve && segment == "." {
			continue
		}
		out = append(out, '/')
		out = append(out, segment...)
	}
	return strings.ToLower(string(out))
}

// unescape decodes each escape once. What is no escape stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi < 16 && lo < 16 {
				out = append(out, hi<<4|lo)
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// unhex is the value of a hexadecimal digit, or 16.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
