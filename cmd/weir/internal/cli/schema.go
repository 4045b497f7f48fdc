package cli

import (
	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/scenario"
	"github.com/floodweir/weir/weirfile"
)

func schemaCommand(w *app) *cobra.Command {
	tests := false
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the policy file, for editors",
		Long: "Print the JSON Schema of the policy file, with which editors complete and check it:\n" +
			"make `# yaml-language-server: $schema=weir.schema.json` the first line of the file.",
		Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			schema := weirfile.Schema()
			if tests {
				schema = scenario.Schema()
			}
			_, err := w.stdout.Write(schema)
			return err
		},
	}
	c.Flags().BoolVar(&tests, "tests", false, "print the schema of the test files of weir test instead")
	return c
}
