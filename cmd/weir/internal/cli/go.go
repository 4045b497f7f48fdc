package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/weave"
)

func goCommand(w *app) *cobra.Command {
	return &cobra.Command{
		Use:   "go COMMAND [ARGUMENTS]",
		Short: "Run the go command with the limits of //weir:limit directives compiled in",
		Long: "Run go COMMAND with the same arguments. For build, install, list, run, test and vet, every function\n" +
			"and method of the main module with a //weir:limit directive is limited for all callers. No source file\n" +
			"changes. `weir go vet` also reports directives without effect.\n\n" +
			"Exit codes: those of go; 1 for an invalid directive, reported as file:line:column.",
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
