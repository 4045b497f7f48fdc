package spelling

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Path is a compiled pattern of paths.
type Path struct {
	Pattern string // as it was written

	segments []string // in lower case; "" stands for any one segment
	rest     bool     // anything may follow
}

// Segments returns the segments that r compares, "" for any one segment, and whether
// further segments may follow. The caller must not modify them.
func (r *Path) Segments() (segments []string, rest bool) { return r.segments, r.rest }

// ParsePath parses a pattern, or returns the accepted values.
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

// braced returns the text between the braces of a segment.
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

// Matches reports whether r matches a variant of a path.
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

// AnyPath returns the pattern of all paths.
func AnyPath() Path { return Path{Pattern: "/*", rest: true} }

// Covers reports whether r matches every path that o matches.
func (r *Path) Covers(o *Path) bool {
	if len(r.segments) > len(o.segments) || !r.rest && (o.rest || len(r.segments) < len(o.segments)) {
		return false
	}
	for i, s := range r.segments {
		if s != "" && s != o.segments[i] {
			return false
		}
	}
	return true
}

// PathVariants has the forms to which servers may normalize a path: in lower case, without
// empty segments and without a trailing slash ("" is the root). Servers treat escaped
// slashes, backslashes, dot and empty segments, path parameters and fragments in different
// ways. If a policy used only one form, a client could bypass it with a path that the
// server normalizes differently. So a policy compares all.
type PathVariants struct {
	N int // how many there are, at least one

	first string
	more  []string
}

// At returns the i-th variant.
func (r *PathVariants) At(i int) string {
	if i == 0 {
		return r.first
	}
	return r.more[i-1]
}

func (r *PathVariants) add(s string) {
	if r.N == 0 {
		r.first, r.N = s, 1
		return
	}
	if s == r.first || slices.Contains(r.more, s) {
		return
	}
	r.more = append(r.more, s)
	r.N++
}

// Read sets r, which is zero, to the variants of a path as sent. It allocates for unusual
// paths only.
func (r *PathVariants) Read(path string) {
	if isPlain(path) {
		if path == "/" {
			path = ""
		}
		r.add(path)
		return
	}
	path, _, _ = strings.Cut(path, "?")
	r.addAll(path)
	// Request targets have no fragment, but nginx cuts a path at #, and net/url escapes it.
	i := strings.IndexByte(path, '#')
	if j := strings.Index(path, "%23"); j >= 0 && (i < 0 || j < i) {
		i = j
	}
	if i >= 0 {
		r.addAll(path[:i])
	}
}

// isPlain reports whether the path is its only variant.
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

// addAll adds the variants of a path by servers that combine the options of separate and
// normalize in any way.
func (r *PathVariants) addAll(path string) {
	first, second := separate(path, true, true), separate(path, true, false)
	third, fourth := separate(path, false, true), separate(path, false, false)
	r.addText(first)
	if second != first {
		r.addText(second)
	}
	if third != first {
		r.addText(third)
	}
	if fourth != second && fourth != third {
		r.addText(fourth)
	}
}

// addText adds the variants of a result of separate.
func (r *PathVariants) addText(text string) {
	if strings.HasPrefix(text, ".") || strings.Contains(text, "/.") {
		semicolon := strings.Contains(text, ";")
		r.add(normalize(text, true, true, true))
		if semicolon || strings.Contains(text, "//") {
			r.add(normalize(text, true, true, false))
		}
		if semicolon {
			r.add(normalize(text, true, false, true))
			r.add(normalize(text, true, false, false))
		}
	}
	r.add(normalize(text, false, true, true))
}

// separate decodes a path. With escapes, an escaped slash separates segments; with
// backslashes, a backslash does.
func separate(path string, escapes, backslashes bool) string {
	if !escapes { // no pattern has a NUL
		path = strings.ReplaceAll(strings.ReplaceAll(path, "%2F", "%00"), "%2f", "%00")
	}
	path = unescape(path)
	if backslashes {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	return path
}

// normalize returns one variant of a result of separate. With dots, dot segments are
// resolved. Before that, parameters removes path parameters, and merges removes empty
// segments.
func normalize(text string, dots, parameters, merges bool) string {
	out := make([]byte, 0, len(text)+1)
	for segment := range strings.SplitSeq(strings.TrimPrefix(text, "/"), "/") {
		bare, _, _ := strings.Cut(segment, ";")
		if parameters {
			segment = bare
		}
		switch {
		case dots && segment == "..":
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		case dots && segment == ".", merges && segment == "":
		default:
			out = append(out, '/')
			out = append(out, bare...)
		}
	}
	// Empty segments are not part of the variant.
	n := 0
	for i, c := range out {
		if c != '/' || i+1 < len(out) && out[i+1] != '/' {
			out[n] = c
			n++
		}
	}
	return strings.ToLower(string(out[:n]))
}

// unescape decodes each escape once. Invalid escapes are unchanged.
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

// unhex returns the value of a hexadecimal digit, or 16.
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
