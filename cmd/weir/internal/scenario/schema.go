package scenario

import (
	_ "embed"
	"slices"
)

//go:embed weir-test.schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of test files.
func Schema() []byte { return slices.Clone(schema) }
