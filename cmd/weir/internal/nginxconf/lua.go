package nginxconf

import "strings"

// lua skips a block of Lua. Strings and comments in it may contain braces.
func (l *lexer) lua() error {
	begun := l.line
	skip := func(n int) {
		n = min(n, len(l.text)-l.at)
		l.line += strings.Count(l.text[l.at:l.at+n], "\n")
		l.at += n
	}
	until := func(end string) {
		if i := strings.Index(l.text[l.at:], end); i >= 0 {
			skip(i + len(end))
			return
		}
		skip(len(l.text))
	}
	for open := 1; l.at < len(l.text); {
		rest := l.text[l.at:]
		long := strings.TrimPrefix(rest, "--")
		level, isLong := bracket(long)
		switch c := rest[0]; {
		case isLong:
			until("]" + strings.Repeat("=", level) + "]")
		case strings.HasPrefix(rest, "--"):
			until("\n")
		case c == '"' || c == '\'':
			for skip(1); l.at < len(l.text) && l.text[l.at] != c && l.text[l.at] != '\n'; skip(1) {
				if l.text[l.at] == '\\' {
					skip(1)
				}
			}
			skip(1)
		default:
			if skip(1); c == '{' {
				open++
			} else if c == '}' {
				if open--; open == 0 {
					return nil
				}
			}
		}
	}
	return l.errorf(begun, "the block of Lua does not end")
}

// bracket reports whether a text begins with one of Lua's long brackets, such as [==[.
func bracket(s string) (level int, ok bool) {
	if !strings.HasPrefix(s, "[") {
		return 0, false
	}
	rest := strings.TrimLeft(s[1:], "=")
	return len(s) - 1 - len(rest), strings.HasPrefix(rest, "[")
}
