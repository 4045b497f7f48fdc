// Package cli implements the commands of the flash sale: demo, serve, merchant, account,
// webhook, payments, migrate, front and version.
package cli

import (
	"context"
	"io"
	"log/slog"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/spf13/cobra"
)

// environment holds the standard streams and the environment of a command.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// Run runs the command line args, without the program's name, and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	w := &environment{stdin, stdout, stderr, getenv}
	root := &cobra.Command{
		Use:   "flashsale",
		Short: "A flash sale: a thousand units, a million buyers, nothing oversold",
		Long: "A flash sale: a thousand units, a million buyers, nothing oversold.\n\n" +
			"Start with `flashsale demo`: a sale that opens in seconds and needs no server.",
	}
	root.AddCommand(w.demo(), w.serve(), w.merchant(), w.account(), w.webhook(), w.payments(), w.migrate(), w.front(), w.version())
	return command.Run(ctx, root, args, stdin, stdout, stderr)
}

// logger returns a logger that writes to stderr.
func (w *environment) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.stderr, nil))
}
