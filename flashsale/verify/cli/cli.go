// Package cli implements the commands that verify a flash sale: audit, load and lab.
package cli

import (
	"context"
	"io"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/spf13/cobra"
)

// Run runs the command line args, without the program's name, and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	root := &cobra.Command{
		Use:   "verify",
		Short: "Verify a flash sale: audit it, put load on it, compare lock designs",
	}
	root.AddCommand(audit(stdout, getenv), loadCommand(stdout), labCommand(stdout))
	return command.Run(ctx, root, args, stdin, stdout, stderr)
}
