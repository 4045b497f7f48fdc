package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// jsonFlag adds --json to a command that prints a result.
func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print the result as JSON")
}

// printJSON prints v as one JSON document.
func (w *app) printJSON(v any) error {
	e := json.NewEncoder(w.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
