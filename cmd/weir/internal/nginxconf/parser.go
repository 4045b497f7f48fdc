package nginxconf

import "strings"

// A parser reads the directives of one file.
type parser struct {
	lexer
	r     *reader
	depth int // of includes
}

// block reads directives up to the end of a block, or of the file at level 0.
func (p *parser) block(level int) ([]*Directive, error) {
	all := []*Directive{}
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
			if kind == '{' && strings.HasPrefix(p.text[p.at:], "%") {
				return nil, p.errorf(line, "unexpected {%%: want the output of a template, not the template")
			}
			if kind == '{' && strings.HasPrefix(p.text[p.at:], "{") {
				return nil, p.errorf(line, "unexpected {{: want the output of a template, not the template")
			}
			return nil, p.errorf(line, "unexpected %q", kind)
		}
		d := &Directive{File: p.name, Line: line, Name: word}
		if err := p.arguments(d, level); err != nil {
			return nil, err
		}
		if d.Name == "include" && !d.IsBlock() {
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

// arguments reads the rest of a directive after its name.
func (p *parser) arguments(d *Directive, level int) error {
	for {
		word, kind, err := p.word()
		if err != nil {
			return err
		}
		switch kind {
		case isWord:
			d.Args = append(d.Args, word)
			continue
		case ';':
			return nil
		case '{':
			if level >= maxBlocks {
				return p.errorf(p.line, "want at most %d blocks within each other", maxBlocks)
			}
			if strings.HasSuffix(d.Name, "_by_lua_block") {
				d.Block = []*Directive{}
				return p.lua()
			}
			d.Block, err = p.block(level + 1)
			return err
		case '}':
			return p.errorf(p.line, `unexpected "}", want ";" after %s`, short(d.String()))
		}
		return p.errorf(p.line, `unexpected end of file, want ";" or "}"`)
	}
}
