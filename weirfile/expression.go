package weirfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir/weirfile/expr"
	"github.com/floodweir/weir/weirfile/strict"
)

// maxExpressions is the maximum size of all expressions of a file in bytes, equal ones
// counted once. Compiling one takes longer than reading it.
const maxExpressions = 256 << 10

// An outcome is the result of compiling the text of an expression.
type outcome struct {
	expression any
	err        error
}

// compiled returns a compiled expression. Its text is at p, after a prefix. A text that
// aliases repeat is compiled once.
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

// failExpression reports the faults of an expression, each at its position in the file.
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

// offset returns the number of characters before a position in a text.
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
