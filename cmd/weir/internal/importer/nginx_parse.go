package importer

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A directive is one line of an nginx.conf, or one block.
type directive struct {
	place
	name  string
	args  []string
	block []*directive // of a block; not nil
}

func (d *directive) isBlock() bool { return d.block != nil }

// String is the directive as it stands in the file, without its block.
func (d *directive) String() string {
	return short(strings.Join(append([]string{d.name}, d.args...), " "))
}

// find is the directives of a name in a block.
func find(block []*directive, name string) (all []*directive) {
	for _, d := range block {
		if d.name == name {
			all = append(all, d)
		}
	}
	return all
}

// Bounds of an nginx.conf.
const (
	maxIncludes = 32 // within each other
	maxBlocks   = 64 // within each other
)

// A confReader reads an nginx.conf and what it includes.
type confReader struct {
	files  Files
	dir    string // which includes are relative to: that of the first file
	read   int    // files
	bytes  int
	absent func(p place, what string, err error) // an include that cannot be read
}

func (r *confReader) file(name string, depth int) ([]*directive, error) {
	data, err := r.files.Read(name)
	if err != nil {
		return nil, err
	}
	if r.read++; r.read > maxFiles {
		return nil, &Error{File: name, Want: fmt.Sprintf("want at most %d files", maxFiles)}
	}
	if r.bytes += len(data); r.bytes > maxAll {
		return nil, &Error{File: name, Want: fmt.Sprintf("want at most %d bytes in all files", maxAll)}
	}
	p := &confParser{r: r, name: name, text: string(data), line: 1, depth: depth}
	return p.block(0)
}

// include reads the files of an include directive.
func (r *confReader) include(d *directive, depth int) (all []*directive, err error) {
	if len(d.args) != 1 {
		return nil, &Error{d.file, d.line, "include: want one file or pattern"}
	}
	if depth >= maxIncludes {
		return nil, &Error{d.file, d.line, fmt.Sprintf("include: want at most %d files that include each other", maxIncludes)}
	}
	pattern := d.args[0]
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(r.dir, pattern)
	}
	names := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		if names, err = r.files.Glob(pattern); err != nil {
			return nil, &Error{d.file, d.line, fmt.Sprintf("include %s: %v", short(d.args[0]), err)}
		}
	}
	for _, name := range names {
		ds, err := r.file(name, depth+1)
		if err != nil {
			if _, broken := err.(*Error); broken {
				return nil, err
			}
			r.absent(d.place, d.String(), err)
			continue
		}
		all = append(all, ds...)
	}
	return all, nil
}

// A confParser reads one file.
type confParser struct {
	r     *confReader
	name  string
	text  string
	at    int
	line  int
	depth int // of includes
}

func (p *confParser) errorf(line int, format string, args ...any) error {
	return &Error{p.name, line, fmt.Sprintf(format, args...)}
}

// block reads directives up to the end of a block, or of the file at level 0.
func (p *confParser) block(level int) ([]*directive, error) {
	all := []*directive{}
	for {
		word, kind, err := p.word()
		line := p.line
		switch {
		case err != nil:
			return nil, err
		case kind == endOfFile && level > 0:
			return nil, p.errorf(line, `unexpected end of file, want "}"`)
		case kind == endOfFile, kind == '}' && level > 0:
			return all, nil
		case kind != isWord:
			return nil, p.errorf(line, "unexpected %q", kind)
		}
		d := &directive{place: place{p.name, line}, name: word}
		if err := p.arguments(d, level); err != nil {
			return nil, err
		}
		if d.name == "include" && !d.isBlock() {
			included, err := p.r.include(d, p.depth)
			if err != nil {
				return nil, err
			}
			all = append(all, included...)
			continue
		}
		all = append(all, d)
	}
}

// arguments reads what follows a name.
func (p *confParser) arguments(d *directive, level int) error {
	for {
		word, kind, err := p.word()
		if err != nil {
			return err
		}
		switch kind {
		case isWord:
			d.args = append(d.args, word)
			continue
		case ';':
			return nil
		case '{':
			if level >= maxBlocks {
				return p.errorf(p.line, "want at most %d blocks within each other", maxBlocks)
			}
			if strings.HasSuffix(d.name, "_by_lua_block") {
				d.block = []*directive{}
				return p.lua()
			}
			d.block, err = p.block(level + 1)
			return err
		case '}':
			return p.errorf(p.line, `unexpected "}", want ";" after %s`, short(d.String()))
		}
		return p.errorf(p.line, `unexpected end of file, want ";" or "}"`)
	}
}

// What a word can be beside one of ; { }.
const (
	isWord    = 'w'
	endOfFile = 0
)

// word reads the next word, or one of ; { }.
func (p *confParser) word() (word string, kind rune, err error) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case '\n':
			p.line++
			p.at++
		case ' ', '\t', '\r':
			p.at++
		case '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		case ';', '{', '}':
			p.at++
			return "", rune(c), nil
		case '"', '\'':
			word, err := p.quote(c)
			return word, isWord, err
		default:
			return p.bare(), isWord, nil
		}
	}
	return "", endOfFile, nil
}

// bare reads a word without quotes. A quote within it is itself, as in nginx.
func (p *confParser) bare() string {
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		switch {
		case c == '\\' && p.at+1 < len(p.text):
			b.WriteString(escaped(p.text[p.at+1]))
			if p.text[p.at+1] == '\n' {
				p.line++
			}
			p.at += 2
			continue
		case c == '$' && p.at+1 < len(p.text) && p.text[p.at+1] == '{':
			b.WriteString("${")
			p.at += 2
			continue
		case c == '}' && strings.Contains(b.String(), "${") && strings.LastIndex(b.String(), "${") > strings.LastIndex(b.String(), "}"):
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';' || c == '{' || c == '}':
			return b.String()
		}
		b.WriteByte(c)
		p.at++
	}
	return b.String()
}

// quote reads a word in quotes.
func (p *confParser) quote(with byte) (string, error) {
	line := p.line
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == with:
			p.at++
			if p.at < len(p.text) && !strings.ContainsRune(" \t\r\n;{)}", rune(p.text[p.at])) {
				return "", p.errorf(p.line, "unexpected %q after a word in quotes", p.text[p.at])
			}
			return b.String(), nil
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
			if p.text[p.at] == '\n' {
				p.line++
			}
			b.WriteString(escaped(p.text[p.at]))
		default:
			if c == '\n' {
				p.line++
			}
			b.WriteByte(c)
		}
	}
	return "", p.errorf(line, "the quotes do not end")
}

// escaped is what a backslash and a character stand for: nginx keeps the backslash but
// before quotes, itself and t, r, n.
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

// lua skips a block of Lua, whose braces may stand in strings and comments.
func (p *confParser) lua() error {
	begun := p.line
	skip := func(n int) {
		n = min(n, len(p.text)-p.at)
		p.line += strings.Count(p.text[p.at:p.at+n], "\n")
		p.at += n
	}
	until := func(end string) {
		if i := strings.Index(p.text[p.at:], end); i >= 0 {
			skip(i + len(end))
			return
		}
		skip(len(p.text))
	}
	for open := 1; p.at < len(p.text); {
		rest := p.text[p.at:]
		long := strings.TrimPrefix(rest, "--")
		level, isLong := bracket(long)
		switch c := rest[0]; {
		case isLong:
			until("]" + strings.Repeat("=", level) + "]")
		case strings.HasPrefix(rest, "--"):
			until("\n")
		case c == '"' || c == '\'':
			for skip(1); p.at < len(p.text) && p.text[p.at] != c && p.text[p.at] != '\n'; skip(1) {
				if p.text[p.at] == '\\' {
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
	return p.errorf(begun, "the block of Lua does not end")
}

// bracket reports whether a text begins with one of Lua's long brackets, such as [==[.
func bracket(s string) (level int, ok bool) {
	if !strings.HasPrefix(s, "[") {
		return 0, false
	}
	rest := strings.TrimLeft(s[1:], "=")
	return len(s) - 1 - len(rest), strings.HasPrefix(rest, "[")
}
