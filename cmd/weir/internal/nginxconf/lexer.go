package nginxconf

import (
	"fmt"
	"strings"
)

// A lexer reads the words of one file.
type lexer struct {
	name string // of the file
	text string
	at   int
	line int
}

func (l *lexer) errorf(line int, format string, args ...any) error {
	return &Error{l.name, line, fmt.Sprintf(format, args...)}
}

// What a word can be beside one of ; { }.
const (
	isWord    = 'w'
	endOfFile = 0
)

// word reads the next word, or one of ; { }.
func (l *lexer) word() (word string, kind rune, err error) {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; c {
		case '\n':
			l.line++
			l.at++
		case ' ', '\t', '\r':
			l.at++
		case '#':
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.at++
			}
		case ';', '{', '}':
			l.at++
			return "", rune(c), nil
		case '"', '\'':
			word, err := l.quote(c)
			return word, isWord, err
		default:
			return l.bare(), isWord, nil
		}
	}
	return "", endOfFile, nil
}

// bare reads a word without quotes. As in nginx, a quote within it has no meaning.
func (l *lexer) bare() string {
	var b strings.Builder
	for l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case c == '\\' && l.at+1 < len(l.text):
			b.WriteString(escaped(l.text[l.at+1]))
			if l.text[l.at+1] == '\n' {
				l.line++
			}
			l.at += 2
			continue
		case c == '$' && l.at+1 < len(l.text) && l.text[l.at+1] == '{':
			b.WriteString("${")
			l.at += 2
			continue
		case c == '}' && strings.Contains(b.String(), "${") && strings.LastIndex(b.String(), "${") > strings.LastIndex(b.String(), "}"):
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';' || c == '{' || c == '}':
			return b.String()
		}
		b.WriteByte(c)
		l.at++
	}
	return b.String()
}

// quote reads a word in quotes.
func (l *lexer) quote(with byte) (string, error) {
	line := l.line
	var b strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		switch c := l.text[l.at]; {
		case c == with:
			l.at++
			if l.at < len(l.text) && !strings.ContainsRune(" \t\r\n;{)}", rune(l.text[l.at])) {
				return "", l.errorf(l.line, "unexpected %q after a word in quotes", l.text[l.at])
			}
			return b.String(), nil
		case c == '\\' && l.at+1 < len(l.text):
			l.at++
			if l.text[l.at] == '\n' {
				l.line++
			}
			b.WriteString(escaped(l.text[l.at]))
		default:
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
		}
	}
	return "", l.errorf(line, "the quotes do not end")
}

// escaped returns the meaning of a backslash and a character. nginx removes the
// backslash only before quotes, itself and t, r, n.
func escaped(c byte) string {
	switch c {
	case '"', '\'', '\\':
		return string(c)
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	}
	return `\` + string(rune(c))
}
