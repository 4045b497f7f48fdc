package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/lab"
	"github.com/floodweir/weir/weirfile"
)

// Exit codes of the commands. take and explain have meanings of their own for 1 and 2.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitDenied = 1 // take
	exitError  = 2 // take
)

// An exit is an error with an exit code. Without err it prints nothing.
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

// app holds the inputs and outputs of a command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// Run runs the command line args, without the program's name, and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	root := newRoot(&app{stdin, stdout, stderr, getenv})
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
	}
	if e.err != nil {
		for line := range strings.Lines(e.err.Error()) {
			fmt.Fprintf(stderr, "weir: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return e.code
}

// newRoot returns the command weir with all others.
func newRoot(w *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Weir is an exact rate limiter: it says whether a request may pass now, and if not, when.",
		Long: "Weir is an exact rate limiter: it says whether a request may pass now, and if not, when.\n\n" +
			"Start with `weir serve`: without a file it runs a demo that needs nothing else.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return wrongUsage(c, flagText(c.Flags(), err)) })
	root.AddCommand(
		serveCommand(w), ratelimitCommand(w), checkCommand(w), testCommand(w), takeCommand(w), explainCommand(w), importCommand(w), edgeCommand(w),
		applyCommand(w), rollbackCommand(w), versionsCommand(w), schemaCommand(w), goCommand(w), generateCommand(w),
		keyCommand(w), auditCommand(w), migrateCommand(w), tokenCommand(w), topCommand(w), versionCommand(w),
	)
	for _, c := range lab.Commands(lab.Config{
		Stdin: w.stdin, Stdout: w.stdout, Stderr: w.stderr, Load: loadComplete,
		Running: func(ctx context.Context, admin, tokenFile string) (*weirfile.File, error) {
			return runningPolicies(ctx, w, admin, tokenFile)
		},
		Published: func(ctx context.Context, store string, version int64) (*weirfile.File, error) {
			return publishedPolicies(ctx, w, store, version)
		},
	}) {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := run(c, args); err != nil {
				return &exit{exitUsage, err}
			}
			return nil
		}
		root.AddCommand(c)
	}
	return root
}
