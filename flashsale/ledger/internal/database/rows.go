package database

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A Column holds the values of a column of several rows: either texts or numbers.
type Column struct {
	name    string
	texts   []string
	numbers []int64
}

// Texts returns the column of a text of each row.
func Texts[T any](name string, rows []T, of func(*T) string) Column {
	c := Column{name: name, texts: make([]string, len(rows))}
	for i := range rows {
		c.texts[i] = of(&rows[i])
	}
	return c
}

// Numbers returns the column of a number of each row.
func Numbers[T any](name string, rows []T, of func(*T) int64) Column {
	c := Column{name: name, numbers: make([]int64, len(rows))}
	for i := range rows {
		c.numbers[i] = of(&rows[i])
	}
	return c
}

// Rows returns a table r of columns of equal length for the text of a statement, and its
// arguments, the first of which has the number first. In PostgreSQL an array for each column
// costs a fraction of a JSON document, which {rows} uses.
func (x *Tx) Rows(first int, columns ...Column) (table string, args []any) {
	if !x.IsPostgres() {
		return rowsOfJSON(first, columns), []any{documentOf(columns)}
	}
	var names, arrays strings.Builder
	for i, c := range columns {
		if i > 0 {
			names.WriteString(", ")
			arrays.WriteString(", ")
		}
		names.WriteString(c.name)
		kind, values := "text", any(c.texts)
		if c.texts == nil {
			kind, values = "bigint", c.numbers
		}
		fmt.Fprintf(&arrays, "$%d::%s[]", first+i, kind)
		args = append(args, values)
	}
	return "unnest(" + arrays.String() + ") AS r (" + names.String() + ")", args
}

// rowsOfJSON returns the table of a document of documentOf. jsonb_each parses it once; the rows of
// json_each are texts, each of which is parsed again.
func rowsOfJSON(argument int, columns []Column) string {
	var b strings.Builder
	b.WriteString("(SELECT ")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "value ->> %d AS %s", i, c.name)
	}
	fmt.Fprintf(&b, " FROM jsonb_each($%d)) AS r", argument)
	return b.String()
}

// documentOf returns a JSON array with an array for each row.
func documentOf(columns []Column) string {
	n := 0
	if len(columns) > 0 {
		n = max(len(columns[0].texts), len(columns[0].numbers))
	}
	b := append(make([]byte, 0, 2+n*(2+24*len(columns))), '[')
	for row := range n {
		if row > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for i, c := range columns {
			if i > 0 {
				b = append(b, ',')
			}
			if c.texts != nil {
				b = appendText(b, c.texts[row])
			} else {
				b = strconv.AppendInt(b, c.numbers[row], 10)
			}
		}
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings always marshal
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
