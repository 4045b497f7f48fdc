package cli

import (
	"github.com/spf13/cobra"

	"github.com/floodweir/weir/weirfile"
)

func (w *app) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the policy file, for editors",
		Long: "Print the JSON Schema of the policy file. An editor that knows YAML completes and checks a file with it:\n" +
			"put `# yaml-language-server: $schema=weir.schema.json` into its first line.",
		Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := w.stdout.Write(weirfile.Schema())
			return err
		},
	}
}
