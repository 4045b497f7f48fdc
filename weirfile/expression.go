package weirfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir/weirfile/expr"
	"github.com/floodweir/weir/weirfile/strict"
)

// maxExpressions is how many bytes the expressions of a file may have, those that are
// alike counted once: to compile one takes longer than to read it.
const maxExpressions = 256 << 10

// An outcome is what became of the text of an expression.
type outcome struct {
	expression any
	err        error
}

// compiled is an expression. Its text stands at p, after a prefix. Aliases may repeat a
// text many times, and it is compiled once.
func compiled[T fmt.Stringer](d *decoder, p place, text, prefix string, compile func(string) (T, error)) (c T) {
	kind := fmt.Sprintf("%T %s", &c, text)
	o, known := d.expressions[kind]
	if !known {
		if d.compiled += len(text); d.compiled > maxExpressions {
			d.failIn(p, strict.Quoted(text), "want fewer expressions: all of a file have at most %d bytes", maxExpressions)
			return c
		}
		o.expression, o.err = compile(text)
		if d.expressions == nil {
			d.expressions = map[string]outcome{}
		}
		d.expressions[kind] = o
	}
	if o.err != nil {
		d.failExpression(p, text, prefix, o.err)
		return c
	}
	return o.expression.(T)
}

// failExpression notes what is wrong with an expression, each fault where it stands
// in the file.
func (d *decoder) failExpression(p place, text, prefix string, err error) {
	var errs expr.Errors
	if !errors.As(err, &errs) {
		d.failIn(p, strict.Quoted(text), "%s", err)
		return
	}
	for _, e := range errs {
		line, column := d.Within(p.node, len(prefix)+offset(text, e.Line, e.Column))
		d.FailAt(line, column, p.field, strict.Quoted(text), e.Want)
	}
}

// offset is how many characters stand before a place in a text.
func offset(text string, line, column int) int {
	all := 0
	for i, s := range strings.Split(text, "\n") {
		n := utf8.RuneCountInString(s)
		if i+1 == line {
			return all + min(column-1, n)
		}
		all += n + 1
	}
	return 0
}
