package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

func tokenCommand(w *app) *cobra.Command {
	role, asJSON := string(access.Operate), false
	c := &cobra.Command{
		Use:   "token NAME",
		Short: "Create a token for a user of the admin interface",
		Long: "Print a random token, and the line for the file of --admin-token-file that accepts it. NAME appears in audit\n" +
			"entries. The file keeps only the hash of the token: give the token to its user and forget it.",
		Example: "  weir token mei                # may see and change everything\n" +
			"  weir token ana --role read    # may see, without plain keys",
		Args: usage(cobra.ExactArgs(1)),
	}
	c.Flags().StringVar(&role, "role", role, "`ROLE` of the user: read, or operate")
	jsonFlag(c, &asJSON)
	c.RunE = func(_ *cobra.Command, args []string) error {
		token, line, err := access.NewToken(access.Role(role), args[0])
		switch {
		case err != nil:
			return &exit{exitUsage, fmt.Errorf("token: %w", err)}
		case asJSON:
			return w.printJSON(map[string]string{"name": args[0], "role": role, "token": token, "line": line})
		}
		_, err = fmt.Fprintf(w.stdout, "token: %s\nline:  %s\n", token, line)
		return err
	}
	return c
}
