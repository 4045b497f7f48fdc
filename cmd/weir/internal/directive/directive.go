package directive

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

// Prefix begins the comment that is a directive.
const Prefix = "//weir:limit"

// A Value is the value of one field of a directive. Its zero value is an absent field.
type Value struct {
	Text string
	At   int // the byte in the text of the directive where the value begins
	Set  bool
}

// A Directive is one //weir:limit line. Parse checks everything that needs no types.
type Directive struct {
	Name, Limit, Period, Algorithm Value
	Key, Cost                      Value
	Wait, Message                  Value
	Fallback, Degrade, OnError     Value
	Errors                         Value // store or all: the errors that OnError handles

	// Off exempts a method from the directive of its type. All other fields are zero.
	Off bool

	Limits  []weir.Limit  // of limit, period and algorithm; nil if all are absent
	MaxWait time.Duration // of wait
	Keys    []Value       // the expressions of key
	Links   []Value       // the names of onerror
	Notes   []Error       // forms that are read but should be replaced
}

// An Error describes a fault of a directive.
type Error struct {
	At      int // the byte in the text of the directive
	Message string
}

// Error returns the message with the column in the text of the directive, from 1.
func (e *Error) Error() string {
	return fmt.Sprintf("directive: column %d: %s", e.At+1, e.Message)
}

// field returns the field of that name, or nil.
func (d *Directive) field(name string) *Value {
	switch name {
	case "name":
		return &d.Name
	case "limit":
		return &d.Limit
	case "period", oldPeriod:
		return &d.Period
	case "algorithm":
		return &d.Algorithm
	case "key":
		return &d.Key
	case "cost":
		return &d.Cost
	case "wait":
		return &d.Wait
	case "message":
		return &d.Message
	case "fallback":
		return &d.Fallback
	case "degrade":
		return &d.Degrade
	case "onerror":
		return &d.OnError
	case "errors":
		return &d.Errors
	}
	return nil
}

// oldPeriod is the former name of the field period. In a limit, interval is a refill mode.
const oldPeriod = "interval"

const fields = "name, key, limit, period, algorithm, cost, wait, message, fallback, degrade, onerror or errors"

// off is the text of a directive that exempts a method.
const off = "off"

// Parse reads the text after //weir:limit: fields such as limit=10, separated by
// spaces, or off. A value with spaces is in double quotes. An error is an *Error.
func Parse(text string) (*Directive, error) {
	d := &Directive{Off: strings.TrimSpace(text) == off}
	if d.Off {
		return d, nil
	}
	for at := 0; ; {
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r"))
		if at == len(text) {
			break
		}
		name, value, next, err := scan(text, at)
		if err != nil {
			return nil, err
		}
		v := d.field(name)
		switch {
		case v == nil:
			return nil, &Error{at, fmt.Sprintf("unknown field %q: want %s", name, fields)}
		case v.Set:
			return nil, &Error{at, fmt.Sprintf("%s is given twice: want it once", name)}
		case value.Text == "":
			return nil, &Error{value.At, fmt.Sprintf("%s: want a value after the =", name)}
		}
		if name == oldPeriod {
			d.Notes = append(d.Notes, Error{at, "interval is the old name of this field: use period=" + value.Text})
		}
		*v, at = value, next
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// scan reads the field at a byte of text and returns where it ends.
func scan(text string, at int) (name string, v Value, next int, err error) {
	word := text[at:]
	if i := strings.IndexAny(word, " \t\r"); i >= 0 {
		word = word[:i]
	}
	name, raw, ok := strings.Cut(word, "=")
	if !ok || name == "" {
		return "", v, 0, &Error{at, fmt.Sprintf("%q: want a field such as limit=10", word)}
	}
	v = Value{Text: raw, At: at + len(name) + 1, Set: true}
	next = at + len(word)
	if !strings.HasPrefix(raw, `"`) {
		if i := strings.IndexByte(raw, '"'); i >= 0 {
			return "", v, 0, &Error{v.At + i, fmt.Sprintf("%s: want quotes around the whole value, as in %s=\"10/s burst 20\"", name, name)}
		}
		return name, v, next, nil
	}
	quoted, err := strconv.QuotedPrefix(text[v.At:])
	if err != nil {
		return "", v, 0, &Error{v.At, fmt.Sprintf(`%s: want a value that ends with a quote, with \" and \\ for what is none`, name)}
	}
	next = v.At + len(quoted)
	if next < len(text) && !strings.ContainsRune(" \t\r", rune(text[next])) {
		return "", v, 0, &Error{next, fmt.Sprintf("%s: want a space after the value", name)}
	}
	v.Text, err = strconv.Unquote(quoted)
	if err != nil {
		return "", v, 0, &Error{v.At, fmt.Sprintf("%s: want a value in double quotes", name)}
	}
	v.At++
	return name, v, next, nil
}
