package weirfile

import "bytes"

const (
	// maxOutside is the maximum size of a policy file without its blocks, in bytes.
	maxOutside = 4 << 20

	// minBlock is the least size of a block, in bytes.
	minBlock = 64 << 10
)

// A block is a long list of overrides in a policy file. It is not parsed with the file, since the
// values of a large YAML text need many times its memory, but in pieces, as an included file.
type block struct {
	text   []byte
	before int // lines before it
	indent int // of its elements
	read   bool
}

// blocks are the blocks of a file, by the line of their first element.
type blocks map[int]*block

// unread returns the line of the first block that was not read, or 0. Such a block is not what its
// text looks like, such as a part of a quoted text.
func (all blocks) unread() (line int) {
	for at, b := range all {
		if !b.read && (line == 0 || at < line) {
			line = at
		}
	}
	return line
}

// refers reports whether a text may have an anchor or an alias. These can stand in other parts of the
// file.
func refers(text []byte) bool {
	for i, c := range text[:len(text)-1] {
		if (c == '&' || c == '*') && i > 0 && bytes.IndexByte([]byte(" \t\n[{,:"), text[i-1]) >= 0 && bytes.IndexByte([]byte(" \t\n\"',"), text[i+1]) < 0 {
			return true
		}
	}
	return false
}

// cut takes the blocks out of the text of a file. A list with the number 0 remains in place of each,
// and as many lines.
func cut(data []byte) (rest []byte, all blocks) {
	done := 0
	for at, line := 0, 1; at < len(data); line++ {
		next := lineEnd(data, at)
		if indent, ok := overridesAt(data[at:next]); ok {
			for next < len(data) && isBlank(data[next:lineEnd(data, next)]) {
				next = lineEnd(data, next)
				line++
			}
			b := blockAt(data, next, indent)
			if len(b.text) >= minBlock && bytes.IndexByte(b.text, '\r') < 0 && !refers(b.text) {
				if all == nil {
					all = blocks{}
				}
				lines := bytes.Count(b.text, []byte("\n"))
				rest = append(append(rest, data[done:next]...), b.text[:b.indent]...)
				rest = append(append(rest, "- 0"...), bytes.Repeat([]byte("\n"), lines)...)
				b.before = line
				all[line+1] = b
				line += lines
				next += len(b.text)
				done = next
			}
		}
		at = next
	}
	if all == nil {
		return data, nil
	}
	return append(rest, data[done:]...), all
}

// overridesAt returns the indentation of the field overrides, if a line has it without a value.
func overridesAt(line []byte) (indent int, ok bool) {
	field := bytes.TrimLeft(line, " ")
	for bytes.HasPrefix(field, []byte("- ")) {
		field = bytes.TrimLeft(field[1:], " ")
	}
	value, ok := bytes.CutPrefix(field, []byte("overrides:"))
	return len(line) - len(field), ok && isBlank(value)
}

// blockAt returns the list that begins on the line at a position, in a field with an indentation. Its
// text is empty if there is none.
func blockAt(data []byte, from, field int) *block {
	b, to := &block{}, from
	for at := from; at < len(data); {
		next := lineEnd(data, at)
		line := data[at:next]
		text := bytes.TrimLeft(line, " ")
		indent, element := len(line)-len(text), bytes.HasPrefix(text, []byte("- "))
		if at == from {
			if b.indent = indent; !element || indent < field {
				return b
			}
		}
		if !isBlank(line) {
			if indent < b.indent || indent == b.indent && !element {
				break
			}
			to = next
		}
		at = next
	}
	b.text = data[from:to]
	return b
}

// isBlank reports whether a line has nothing but a comment.
func isBlank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// lineEnd returns the position after the line at a position.
func lineEnd(data []byte, at int) int {
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(data)
}
