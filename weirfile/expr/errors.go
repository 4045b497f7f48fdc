package expr

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/floodweir/weir/internal/fault"
)

// An Error describes one fault of an expression: its Line, its Column in characters and,
// in Want, what is wrong and what is accepted. It wraps weir.ErrInvalid.
type Error = fault.Error

// Errors lists the faults of an expression, by position.
type Errors = fault.Errors

// maxErrors is the number of faults reported for one text.
const maxErrors = 8

func faultAt(line, column int, want string, args ...any) Errors {
	return Errors{{File: "expr", Line: max(1, line), Column: max(1, column), Want: fmt.Sprintf(want, args...)}}
}

// issues converts the faults that CEL reports.
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
		errs = append(errs, &Error{File: "expr", Line: line, Column: column + 1, Want: plain(said)})
		if syntax || len(errs) == maxErrors {
			break // what follows a fault of syntax follows from it
		}
	}
	return errs
}

// named returns the column at which the name in a message begins. CEL reports its end,
// or its last dot.
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

// plain returns a message of CEL on one line, without details of its grammar.
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
	return fault.Printable(regexp.MustCompile(`'_([^_']+)_'`).ReplaceAllString(said, "'$1'"))
}
