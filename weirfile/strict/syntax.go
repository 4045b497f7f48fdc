package strict

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// foreign returns the position of the first bytes that are not text, and a description
// of them.
func foreign(data []byte) (at int, what string) {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return i, fmt.Sprintf("the byte %#02x", data[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			return i, fmt.Sprintf("the character %U", r)
		}
		i += size
	}
	return 0, ""
}

// lineOf returns the line and column of the byte i.
func lineOf(data []byte, i int) (line, column int) {
	before := string(data[:i])
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// syntax reports the fault of invalid YAML.
func (d *Document) syntax(err error) {
	var one *yaml.LoadError
	if many := (*yaml.LoadErrors)(nil); errors.As(err, &many) && len(many.Errors) > 0 {
		one = many.Errors[0]
	} else if !errors.As(err, &one) {
		d.failText(1, 1, "", "want YAML: "+Printable(err.Error()))
		return
	}
	text := strings.TrimPrefix(one.Message, "yaml: ")
	line, column := one.Mark.Line, one.Mark.Column
	if last := bytes.Count(d.data, []byte("\n")) + 1; line > last {
		line, column = last, 1 // the end of a file that does not end in a line end
	}
	switch {
	case strings.HasPrefix(text, "no documents"):
		d.failText(1, 1, "", d.config.Empty)
	case strings.HasPrefix(text, "expected single document"):
		d.failText(1, 1, "", "want one document, got several: a line of --- begins another")
	case tabbed(d.data, line):
		d.failText(line, column, "a tab", "want spaces: YAML does not indent with tabs")
	case strings.HasPrefix(text, "unknown anchor "), starred(d.data, line, column):
		name := strings.TrimSuffix(strings.TrimPrefix(text, "unknown anchor '"), "' referenced")
		if name == text {
			name = ""
		}
		d.failText(line, column, "*"+Printable(name), "want a value or the name of an anchor: put a text that begins with * in quotes, such as \"*.example.com\"")
	case one.ContextMsg == "while parsing a tag":
		d.failText(line, column, "a tag", "want a plain value without one: put a text that begins with ! in quotes")
	default:
		if one.ContextMsg != "" {
			text += " " + one.ContextMsg
		}
		d.failText(line, column, "", "want YAML: "+Printable(text))
	}
}

// starred reports whether an alias without a name, such as a * alone, is at a position.
func starred(data []byte, line, column int) bool {
	for i, text := range strings.Split(string(data), "\n") {
		if i+1 == line {
			r := []rune(text)
			return column >= 1 && (column <= len(r) && r[column-1] == '*' || column >= 2 && column-2 < len(r) && r[column-2] == '*')
		}
	}
	return false
}

// tabbed reports whether the white space at the beginning of a line contains a tab.
func tabbed(data []byte, line int) bool {
	for i, text := range strings.Split(string(data), "\n") {
		if i+1 == line {
			return strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t")
		}
	}
	return false
}
