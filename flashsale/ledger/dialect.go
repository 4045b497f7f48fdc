package ledger

import (
	"embed"
	"encoding/json"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3/database"
)

//go:embed migrations
var migrations embed.FS

// A dialect is where the SQL of two databases differs.
type dialect struct {
	name     string
	postgres bool
	goose    database.Dialect
}

var (
	postgres = dialect{name: "postgres", postgres: true, goose: database.DialectPostgres}
	sqlite   = dialect{name: "sqlite", goose: database.DialectSQLite3}
)

// files are the migrations, numbered by their names.
func (d dialect) files() fs.FS {
	f, err := fs.Sub(migrations, "migrations/"+d.name)
	if err != nil {
		panic(err) // the name is one of ours
	}
	return f
}

// sql makes a statement of a text in which
//
//	{lock}           keeps the rows that are read from being changed
//	{lock:TABLE}     those of one table
//	{skip}           and leaves out rows that others keep
//	{among:N}        is true of a text that is one of those that argument N holds (see among)
//	{rows:A text, …} is a table r made of the JSON array $1, one object a row, with a column pos
//
// stand for what the dialect has for it. SQLite needs no lock: only one transaction writes.
func (d dialect) sql(text string) string {
	for {
		before, rest, ok := strings.Cut(text, "{")
		if !ok {
			return text
		}
		name, after, _ := strings.Cut(rest, "}")
		name, arg, _ := strings.Cut(name, ":")
		text = before + d.piece(name, arg) + after
	}
}

func (d dialect) piece(name, arg string) string {
	switch {
	case name == "rows":
		return d.rows(arg)
	case name == "among" && d.postgres:
		return "= ANY ($" + arg + "::text[])"
	case name == "among":
		return "IN (SELECT value FROM json_each($" + arg + "))"
	case !d.postgres:
		return ""
	case name == "lock" && arg != "":
		return "FOR NO KEY UPDATE OF " + arg
	case name == "lock":
		return "FOR NO KEY UPDATE"
	}
	return "SKIP LOCKED"
}

// among is an argument that holds texts: in PostgreSQL an array, whose length the planner
// knows; it takes any other table for one of 100 rows.
func (l *Ledger) among(all []string) any {
	if l.d.postgres {
		return all
	}
	doc, err := json.Marshal(all)
	if err != nil {
		panic(err) // texts are JSON always
	}
	return string(doc)
}

func (d dialect) rows(columns string) string {
	if d.postgres {
		return "json_to_recordset($1::text::json) AS r(" + columns + ")"
	}
	var b strings.Builder
	b.WriteString("(SELECT ")
	for i, c := range strings.Split(columns, ", ") {
		name, _, _ := strings.Cut(c, " ")
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("value ->> '" + name + "' AS " + name)
	}
	b.WriteString(" FROM json_each($1)) AS r")
	return b.String()
}
