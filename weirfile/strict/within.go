package strict

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Within returns the position in the file of the i-th character of the text n, from 0.
// For folded texts that it cannot follow it returns the beginning of the text.
func (d *Document) Within(n Node, i int) (line, column int) {
	if d.lines == nil {
		d.lines = strings.Split(strings.ReplaceAll(strings.TrimPrefix(string(d.data), "\ufeff"), "\r\n", "\n"), "\n")
	}
	w := &walk{lines: d.lines, line: n.Line() - 1 - d.config.Before, column: n.Column() - 1, style: n.value.Style}
	if !w.start() {
		return n.Line(), n.Column()
	}
	for _, r := range []rune(n.Text())[:min(i, utf8.RuneCountInString(n.Text()))] {
		if !w.step(r) {
			return n.Line(), n.Column()
		}
	}
	return w.line + 1 + d.config.Before, w.column + 1
}

// A walk follows the source of a text along with its value. Lines and columns count
// from 0.
type walk struct {
	lines        []string
	line, column int
	style        yaml.Style
	indent       int // of a block
}

func (w *walk) block() bool { return w.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 }

// rest returns the rest of the line.
func (w *walk) rest() []rune {
	if w.line < 0 || w.line >= len(w.lines) {
		return nil
	}
	r := []rune(w.lines[w.line])
	return r[min(max(0, w.column), len(r)):]
}

// start moves to the first character of the value.
func (w *walk) start() bool {
	if w.line < 0 || w.line >= len(w.lines) {
		return false
	}
	for { // anchors stand before the value
		r := w.rest()
		if len(r) == 0 || r[0] != '&' {
			break
		}
		n := strings.IndexFunc(string(r), unicode.IsSpace)
		if n < 0 {
			return false
		}
		w.column += utf8.RuneCountInString(string(r)[:n])
		w.space()
	}
	switch {
	case w.block():
		header, _, _ := strings.Cut(string(w.rest()), "#")
		if strings.ContainsAny(header, "0123456789") {
			return false // an indentation of its own
		}
		return w.content()
	case w.style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		w.column++
	}
	return true
}

// content moves to the first line of a block and determines its indentation.
func (w *walk) content() bool {
	for w.line++; w.line < len(w.lines); w.line++ {
		if s := w.lines[w.line]; strings.TrimSpace(s) != "" {
			w.indent = len(s) - len(strings.TrimLeft(s, " "))
			w.column = w.indent
			return true
		}
		if w.style&yaml.LiteralStyle != 0 {
			return false // a value that begins with empty lines
		}
	}
	return false
}

// space skips spaces and tabs.
func (w *walk) space() {
	for _, r := range w.rest() {
		if r != ' ' && r != '\t' {
			return
		}
		w.column++
	}
}

// next moves to the next line.
func (w *walk) next() bool {
	w.line++
	w.column = w.indent
	if !w.block() {
		w.column = 0
		w.space()
	}
	return w.line < len(w.lines)
}

// ended reports whether the line has nothing more of the value.
func (w *walk) ended() bool {
	if w.block() {
		return len(w.rest()) == 0
	}
	return strings.TrimSpace(string(w.rest())) == ""
}

// step moves past one character of the value. It reports whether the source has it
// there.
func (w *walk) step(r rune) bool {
	if w.ended() {
		if w.style&yaml.LiteralStyle != 0 {
			return r == '\n' && w.next()
		}
		return (r == ' ' || r == '\n') && w.next() && !w.ended()
	}
	source := w.rest()
	switch {
	case w.style&yaml.DoubleQuotedStyle != 0 && source[0] == '\\':
		n := 2
		if len(source) > 1 {
			switch source[1] {
			case 'x':
				n = 4
			case 'u':
				n = 6
			case 'U':
				n = 10
			}
		}
		w.column += n
		return len(source) >= n
	case w.style&yaml.SingleQuotedStyle != 0 && r == '\'':
		w.column += 2
		return len(source) > 1 && source[0] == '\'' && source[1] == '\''
	}
	w.column++
	return source[0] == r
}
