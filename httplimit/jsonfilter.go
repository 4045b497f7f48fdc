package httplimit

// maxString bounds the bytes that are kept of a string. Member names in paths are shorter, also
// with escapes.
const maxString = 8 << 10

// A jsonFilter removes from a JSON text what contains no cost: the elements of arrays, and the ends
// of long strings. Long responses are long because of these, and the cost often follows them.
type jsonFilter struct {
	arrays int // nesting depth
	quoted bool
	length int  // of the string, in bytes
	escape int  // bytes of an escape to come; 5 after the backslash
	cut    bool // the rest of the string is left out
}

// append appends the kept bytes of text, the next piece, to dst.
func (s *jsonFilter) append(dst, text []byte) []byte {
	for _, c := range text {
		keep := s.arrays == 0
		switch {
		case s.quoted:
			keep = s.inString(c) && keep
		case c == '"':
			s.quoted, s.length, s.cut = true, 0, false
		case c == '[':
			s.arrays++
		case c == ']' && s.arrays > 0:
			s.arrays--
			keep = s.arrays == 0
		}
		if keep {
			dst = append(dst, c)
		}
	}
	return dst
}

// inString processes one byte of a string, and reports whether to keep it. An escape is kept or
// removed as a whole.
func (s *jsonFilter) inString(c byte) bool {
	s.length++
	switch {
	case s.escape == 5 && c == 'u':
		s.escape = 4
	case s.escape == 5:
		s.escape = 0
	case s.escape > 0:
		s.escape--
	case c == '"':
		s.quoted = false
		return true
	default:
		s.cut = s.cut || s.length > maxString
		if c == '\\' {
			s.escape = 5
		}
	}
	return !s.cut
}
