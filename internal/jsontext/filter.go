// Package jsontext removes the parts of a JSON text that contain no numbers of interest, while
// the text arrives in pieces.
package jsontext

// maxString bounds the bytes that are kept of a string. Member names in paths are shorter, also
// with escapes.
const maxString = 8 << 10

// A Filter removes from a JSON text what contains no cost: the elements of arrays, and the ends
// of long strings. Long responses are long because of these, and the cost often follows them.
type Filter struct {
	arrays int // nesting depth
	quoted bool
	length int  // of the string, in bytes
	escape int  // bytes of an escape to come; 5 after the backslash
	cut    bool // the rest of the string is left out
}

// Append appends the kept bytes of text, the next piece, to dst.
func (f *Filter) Append(dst, text []byte) []byte {
	for _, c := range text {
		keep := f.arrays == 0
		switch {
		case f.quoted:
			keep = f.inString(c) && keep
		case c == '"':
			f.quoted, f.length, f.cut = true, 0, false
		case c == '[':
			f.arrays++
		case c == ']' && f.arrays > 0:
			f.arrays--
			keep = f.arrays == 0
		}
		if keep {
			dst = append(dst, c)
		}
	}
	return dst
}

// inString processes one byte of a string, and reports whether to keep it. An escape is kept or
// removed as a whole.
func (f *Filter) inString(c byte) bool {
	f.length++
	switch {
	case f.escape == 5 && c == 'u':
		f.escape = 4
	case f.escape == 5:
		f.escape = 0
	case f.escape > 0:
		f.escape--
	case c == '"':
		f.quoted = false
		return true
	default:
		f.cut = f.cut || f.length > maxString
		if c == '\\' {
			f.escape = 5
		}
	}
	return !f.cut
}

// InString reports whether the text so far ends inside a string.
func (f *Filter) InString() bool { return f.quoted }
