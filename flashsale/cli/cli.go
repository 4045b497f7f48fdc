// Package cli is the command line of the flash sale: `flashsale demo`, serve, merchant,
// migrate, audit, load, lab, front and version.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"syscall"

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
	root.AddCommand(w.demo(), w.serve(), w.merchant(), w.migrate(), w.audit(), w.load(), w.lab(), w.front(), w.version())
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
	for _, line := range faults(err) {
		fmt.Fprintf(stderr, "flashsale: %s\n", line)
	}
	if m := (misuse{}); errors.As(err, &m) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

// faults are what err says, a line for each. What is indented belongs to the line before, and
// is said once: a database that is tried in several ways fails in several.
func faults(err error) []string {
	var lines, tried []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
		case len(lines) == 0 || text[0] == line[0]:
			lines, tried = append(lines, text), nil
		case !slices.Contains(tried, text):
			joint := " "
			if len(tried) > 0 {
				joint = "; "
			}
			lines[len(lines)-1] += joint + text
			tried = append(tried, text)
		}
	}
	return lines
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
