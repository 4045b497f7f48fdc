// Package cli is the command line of the flash sale: `flashsale demo`, serve, merchant,
// migrate, audit, load, lab and front.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// A misuse is an error of how a command was called.
type misuse struct{ error }

// world is what a command may touch.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// Run runs the command line args, without the program's name, and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	w := &world{stdin, stdout, stderr, getenv}
	root := &cobra.Command{
		Use:   "flashsale",
		Short: "A flash sale: a thousand units, a million buyers, nothing oversold",
		Long: "A flash sale: a thousand units, a million buyers, nothing oversold.\n\n" +
			"Start with `flashsale demo`: a sale that opens in seconds and needs no server.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage(cobra.NoArgs),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return misuse{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(w.demo(), w.serve(), w.merchant(), w.migrate(), w.audit(), w.load(), w.lab(), w.front())
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "flashsale: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if m := (misuse{}); errors.As(err, &m) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

// usage makes what an argument check finds an error of usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return misuse{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
		}
		return nil
	}
}

// logger writes the log to stderr.
func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.stderr, nil))
}

// stores are the flags that say where a sale is kept. What may hold a password is read from
// the environment too.
func (w *world) stores(c *cobra.Command, to *run.Config) {
	f := c.Flags()
	f.StringVar(&to.Data, "data", "", "the `DIRECTORY` of the embedded mode, in which one process keeps everything in a file")
	f.StringVar(&to.Database, "database", w.getenv("FLASHSALE_DATABASE"), "the ledger of several processes: `URL` postgres://… (or FLASHSALE_DATABASE)")
	f.StringVar(&to.Redis, "redis", w.getenv("FLASHSALE_REDIS"), "their gate: `URL` redis://, rediss://, redis+sentinel:// or redis+cluster:// (or FLASHSALE_REDIS)")
	f.Lookup("database").DefValue, f.Lookup("redis").DefValue = "", "" // a URL may hold a password
}
