package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes of every command. Take has meanings of its own for two of them.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitDenied = 1 // take
	exitError  = 2 // take
)

// An exit is an error that says how the process ends. One without an err says
// nothing on its way out.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// world is what a command may touch.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// Run runs the command line args, without the program's name, and returns the
// exit code. It reads nothing that is not in its arguments, but files.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	w := &app{stdin, stdout, stderr, getenv}
	root := &cobra.Command{
		Use:   "weir",
		Short: "Weir limits rates, exactly: may this go through now, and if not, when?",
		Long: "Weir limits rates, exactly: may this go through now, and if not, when?\n\n" +
			"Start with `weir serve`: without a file it is a demonstration that needs nothing.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exit{exitUsage, fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(w.serve(), w.check(), w.take(), w.explain(), w.importer(), w.edge(), w.apply(), w.rollback(), w.versions(), w.schema(), w.golang(), w.generate(), w.version())
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{exitFailed, err}
		if strings.HasPrefix(err.Error(), "unknown command") {
			e.code = exitUsage
		}
	}
	if e.err != nil {
		for line := range strings.Lines(e.err.Error()) {
			fmt.Fprintf(stderr, "weir: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return e.code
}

// usage makes what an argument check finds an error of usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &exit{exitUsage, fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
		}
		return nil
	}
}
