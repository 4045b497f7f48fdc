package expr

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"cel.dev/cel-go/cel"

	"github.com/floodweir/weir"
)

// An Error is one fault of a text. It wraps weir.ErrInvalid.
type Error struct {
	Line   int    // from 1
	Column int    // from 1, in characters
	Want   string // what is wrong, and what was expected
}

// Error is "expr: line:column: what is wrong".
func (e *Error) Error() string { return fmt.Sprintf("expr: %d:%d: %s", e.Line, e.Column, e.Want) }

// Unwrap is weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

// Errors are the faults of a text, in its order.
type Errors []*Error

// Error is the errors, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap is the errors.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// maxErrors is how many faults of one text are told.
const maxErrors = 8

func fault(line, column int, want string, args ...any) Errors {
	return Errors{{Line: max(1, line), Column: max(1, column), Want: fmt.Sprintf(want, args...)}}
}

// issues are the faults that CEL finds in a text.
func issues(text string, iss *cel.Issues) Errors {
	lines := strings.Split(text, "\n")
	var errs Errors
	for _, e := range iss.Errors() {
		line, column := max(1, e.Location.Line()), max(0, e.Location.Column())
		said := e.Message
		syntax := strings.HasPrefix(said, "Syntax error: ")
		if line <= len(lines) {
			column = named(said, []rune(lines[line-1]), column)
		}
		errs = append(errs, &Error{Line: line, Column: column + 1, Want: plain(said)})
		if syntax || len(errs) == maxErrors {
			break // what follows a fault of syntax follows from it
		}
	}
	return errs
}

// named is the column at which the name begins that a message is about. CEL says
// where it ends, or where its last dot is.
func named(said string, line []rune, column int) int {
	m := regexp.MustCompile(`^undeclared reference to '([^']+)'`).FindStringSubmatch(said)
	if m == nil {
		return column
	}
	name := []rune(m[1])
	for back := 1; back <= len(name); back++ {
		if from := column - back; from >= 0 && from+len(name) <= len(line) && string(line[from:from+len(name)]) == m[1] {
			return from
		}
	}
	return column
}

// plain is a message of CEL in one line, without what only its grammar's author reads.
func plain(said string) string {
	said, _, _ = strings.Cut(said, " expecting {")
	said = strings.NewReplacer(
		"Syntax error: ", "syntax error: ", "mismatched input '<EOF>'", "unexpected end", "'<EOF>'", "the end", "for '@in'", "for 'in'",
		"comprehension exceeds nesting", fmt.Sprintf("want at most %d loops in one another: comprehension exceeds nesting", maxNested),
	).Replace(said)
	switch {
	case strings.Contains(said, "token recognition error at: '="):
		said += "; == compares"
	case strings.Contains(said, "'in' applied to '(string, net.CIDR)'"):
		said += `; want cidr("10.0.0.0/8").containsIP(client.ip)`
	}
	return printable(regexp.MustCompile(`'_([^_']+)_'`).ReplaceAllString(said, "'$1'"))
}

// printable is text that keeps to one line and a sensible length.
func printable(text string) string {
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// quoted is s in quotes, cut to a length that fits a line.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q… (%d bytes)", most, s, len(s))
	}
	return fmt.Sprintf("%q", s)
}
