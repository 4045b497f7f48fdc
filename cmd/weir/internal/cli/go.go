package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/weave"
)

func (w *app) golang() *cobra.Command {
	return &cobra.Command{
		Use:   "go COMMAND [ARGUMENTS]",
		Short: "Run the go command, with functions limited as their //weir:limit directives say",
		Long: "Run go COMMAND with the same arguments. If it is build, install, list, run, test or vet, every function\n" +
			"and method of the main module that has a //weir:limit directive is limited for all that call it, and no\n" +
			"file is changed. `weir go vet` also fails for every directive that limits nothing.\n\n" +
			"Exit codes: those of go; 1 if something is wrong with a directive, which is said as file:line:column.",
		Example: "  weir go build ./cmd/shop\n" +
			"  weir go test ./...\n" +
			"  weir go run .\n" +
			"  weir go vet ./...",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			code, err := weave.Run(c.Context(), weave.Config{Stdin: w.stdin, Stdout: w.stdout, Stderr: w.stderr}, args)
			var faults weave.Faults
			switch {
			case errors.As(err, &faults):
				for _, f := range faults {
					fmt.Fprintln(w.stderr, f) // bare: editors jump to file:line:column
				}
				return &exit{code: exitFailed}
			case err != nil || code != 0:
				return &exit{code, err}
			}
			return nil
		},
	}
}
