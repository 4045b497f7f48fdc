package database

import (
	"embed"
	"encoding/json"
	"io/fs"
	"strings"

	goosedb "github.com/pressly/goose/v3/database"
)

//go:embed migrations
var migrations embed.FS

// dialect holds the differences between the SQL of the two databases.
type dialect struct {
	name     string
	postgres bool
	goose    goosedb.Dialect
}

var (
	postgres = dialect{name: "postgres", postgres: true, goose: goosedb.DialectPostgres}
	sqlite   = dialect{name: "sqlite", goose: goosedb.DialectSQLite3}
)

// files returns the migrations, numbered by their names.
func (d dialect) files() fs.FS {
	f, err := fs.Sub(migrations, "migrations/"+d.name)
	if err != nil {
		panic(err) // the name is a constant
	}
	return f
}

// sql replaces these placeholders in a statement:
//
//	{lock}           locks the rows that are read
//	{lock:TABLE}     locks those of one table
//	{skip}           skips rows that other transactions have locked
//	{among:N}        is true for a text that is in argument N (see Tx.Among)
//	{rows:A text, …} is a table r with a row for each object of the JSON array $1
//
// SQLite needs no lock, because only one transaction writes.
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

// Among returns an argument with several texts, for {among:N}. In PostgreSQL it is an array, whose length the
// planner knows; for other tables it assumes 100 rows.
func (x *Tx) Among(all []string) any {
	if x.IsPostgres() {
		return all
	}
	doc, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings always marshal
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
	b.WriteString(" FROM jsonb_each($1)) AS r")
	return b.String()
}
