package weirfile

import (
	_ "embed"
	"slices"
)

//go:generate go test -count=1 -run TestSchemaIsCurrent -update .

//go:embed weir.schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of policy files, for editors and other programs.
// It accepts every file that Parse accepts. Parse also checks combinations of fields
// and compiles expressions.
func Schema() []byte { return slices.Clone(schema) }
