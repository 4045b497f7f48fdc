package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/lab"
	"github.com/floodweir/weir/cmd/weir/internal/suggest"
	"github.com/floodweir/weir/weirfile"
)

// Exit codes of the commands. Those that answer a question, such as take, have exitDenied and exitError in
// place of exitFailed.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitDenied = 1
	exitError  = 2
)

// exitHelp is the meaning of the exit codes.
const exitHelp = "Exit codes of all commands: 0 done; 1 not done, or an invalid file; 2 wrong usage: an argument, a flag, a\n" +
	"variable, or a file that cannot be read. Commands that answer a question (take, explain, key show, test): 0 yes,\n" +
	"1 no, 2 no answer. An import that left something out: 3."

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
	checkBuiltin(root)
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
			"Start with `weir serve`: without a file it runs a demo that needs nothing else.\n\n" + exitHelp,
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
		Stdin: w.stdin, Stdout: w.stdout, Stderr: w.stderr,
		Load: func(path string) (*weirfile.File, error) { return withCode(loadComplete(path)) },
		Running: func(ctx context.Context, admin, tokenFile string) (*weirfile.File, error) {
			return withCode(runningPolicies(ctx, w, admin, tokenFile))
		},
		Published: func(ctx context.Context, store string, version int64) (*weirfile.File, error) {
			return withCode(publishedPolicies(ctx, w, store, version))
		},
	}) {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := run(c, args); err != nil {
				if errors.Is(err, suggest.ErrTooLittle) {
					return &exit{exitFailed, err}
				}
				return &exit{codeOf(err, exitUsage), err}
			}
			return nil
		}
		root.AddCommand(c)
	}
	return root
}

// withCode gives an error of loading policies its exit code.
func withCode(f *weirfile.File, err error) (*weirfile.File, error) {
	if err != nil {
		err = &exit{fileCode(err), err}
	}
	return f, err
}

// fileCode returns the exit code of an error of a file: wrong usage if the file cannot be read.
func fileCode(err error) int {
	var path *fs.PathError
	if errors.As(err, &path) {
		return exitUsage
	}
	return codeOf(err, exitFailed)
}

// codeOf returns the exit code of err, or other if it has none.
func codeOf(err error, other int) int {
	var e *exit
	if errors.As(err, &e) {
		return e.code
	}
	return other
}
