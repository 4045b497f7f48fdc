package httplimit

// maxString is the most that is kept of a string, in bytes. The names of members that
// tell a cost are shorter, however they are escaped.
const maxString = 8 << 10

// A skim leaves out of a JSON text, which comes in pieces, what tells no cost: all that
// is in arrays, and the rest of a long string. An answer is long for one of the two, a
// picture or a list, and what it costs stands after it.
type skim struct {
	arrays int // that are open
	quoted bool
	length int  // of the string, in bytes
	escape int  // of it still to come; 5 before it is known how long it is
	cut    bool // the rest of the string is left out
}

// append appends to dst what it keeps of text.
func (s *skim) append(dst, text []byte) []byte {
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

// inString goes on by one byte of a string, and reports whether it is kept. An escape
// is kept or left out whole.
func (s *skim) inString(c byte) bool {
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
