package importer

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// comment writes text as comments, wrapped.
func comment(s *strings.Builder, indent, text string) {
	const width = 100
	text = printable(text)
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := indent + "# " + lead
	begun := false
	for word := range strings.FieldsSeq(text) {
		switch {
		case !begun:
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			s.WriteString(line + "\n")
			line = indent + "#   " + lead
		default:
			line += " "
		}
		line += word
		begun = true
	}
	s.WriteString(strings.TrimRight(line, " ") + "\n")
}

// list returns texts as a YAML list.
func list(values []string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = quoted(v)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// quoted returns a text as YAML, in quotes if necessary.
func quoted(s string) string {
	switch {
	case plain(s):
		return s
	case !strings.Contains(s, `"`) && !strings.Contains(s, `\`) && printable(s) == s:
		return `"` + s + `"`
	case printable(s) == s:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strconv.QuoteToASCII(s)
}

// plain reports whether a text needs no quotes in YAML.
func plain(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' && r != '/') {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

// printable replaces line breaks and other control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// cel returns a text as a CEL string. Invalid UTF-8 stays, so that valid finds it.
func cel(s string) string {
	if !utf8.ValidString(s) {
		return `"` + s + `"`
	}
	return strconv.Quote(s)
}

// all joins conditions by "and".
func all(conditions []string) string { return join(conditions, " && ", " || ") }

// either joins conditions by "or".
func either(conditions []string) string { return join(conditions, " || ", " && ") }

// join joins conditions by an operator, with parentheses around those that contain the
// other operator.
func join(conditions []string, with, other string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	parts := make([]string, len(conditions))
	for i, c := range conditions {
		if parts[i] = c; outside(c, other) {
			parts[i] = "(" + c + ")"
		}
	}
	return strings.Join(parts, with)
}

// not returns an expression that is true if no condition is true.
func not(conditions []string) string {
	if len(conditions) == 1 {
		c := conditions[0]
		if !outside(c, " && ") && !outside(c, " || ") && !outside(c, " == ") && !outside(c, " != ") && !outside(c, " in ") {
			return "!" + c
		}
	}
	return "!(" + either(conditions) + ")"
}

// outside reports whether an operator occurs in an expression outside of parentheses
// and quotes.
func outside(text, operator string) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], operator):
			return true
		}
	}
	return false
}

// short returns the beginning of a text, for a comment.
func short(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
