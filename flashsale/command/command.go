// Package command holds what the programs of the flash sale share: how a command line is run,
// how errors are printed, and the flags that name the stores.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// A UsageError is an error in the command line. The program exits with code 2.
type UsageError struct{ error }

// Run runs root with args until SIGINT, SIGTERM or its end, and returns the exit code. It
// prints an error to stderr, one line per fault, each with root's name in front.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = Args(cobra.NoArgs)
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(c, flagText(c, err))
	})
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
	for _, line := range lines(err) {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), line)
	}
	if m := (UsageError{}); errors.As(err, &m) {
		return exitUsage
	}
	return exitFailed
}

// lines splits an error into lines. It joins an indented line to the line before, once: a
// database that is tried at several addresses returns the same text for each.
func lines(err error) []string {
	var all, indented []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
		case len(all) == 0 || text[0] == line[0]:
			all, indented = append(all, text), nil
		case !slices.Contains(indented, text):
			separator := " "
			if len(indented) > 0 {
				separator = "; "
			}
			all[len(all)-1] += separator + text
			indented = append(indented, text)
		}
	}
	return all
}

// Args returns check with its errors turned into usage errors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case check(c, args) == nil:
			return nil
		case c.HasSubCommands() && len(args) > 0:
			c.SuggestionsMinimumDistance = typos
			return usage(c, fmt.Sprintf("unknown command %.80q%s", args[0], didYouMean("", c.SuggestionsFor(args[0]))))
		}
		return usage(c, fmt.Sprintf("want `%s`, got %.160q", strings.TrimSuffix(c.UseLine(), " [flags]"), args))
	}
}

// flagText words an error of the parser of flags.
func flagText(c *cobra.Command, err error) string {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	var number *strconv.NumError
	switch {
	case errors.As(err, &value):
		want := value.Unwrap().Error()
		if errors.As(value.Unwrap(), &number) {
			want = "want a value of the type " + value.GetFlag().Value.Type()
		}
		return fmt.Sprintf("--%s %.80q: %s", value.GetFlag().Name, value.GetValue(), want)
	case errors.As(err, &missing):
		want, _ := pflag.UnquoteUsage(missing.GetFlag())
		return fmt.Sprintf("--%s: want %s, got none", missing.GetFlag().Name, want)
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		return fmt.Sprintf("unknown flag --%.80s%s", name, didYouMean("--", similarFlags(c, name)))
	}
	return err.Error()
}

// usage returns a UsageError that names the command and its help.
func usage(c *cobra.Command, text string) error {
	if _, command, ok := strings.Cut(c.CommandPath(), " "); ok {
		text = command + ": " + text
	}
	return Usagef("%s (see %s --help)", text, c.CommandPath())
}

// typos is the maximum number of changed letters of a name that is suggested.
const typos = 2

// similarFlags returns the flags of c whose names are similar to a name. Cobra compares names of
// commands only, so each flag becomes a command.
func similarFlags(c *cobra.Command, name string) []string {
	flags := cobra.Command{SuggestionsMinimumDistance: typos}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return flags.SuggestionsFor(name)
}

// didYouMean returns the end of an error about an unknown name.
func didYouMean(prefix string, similar []string) string {
	if len(similar) == 0 {
		return ""
	}
	return ", did you mean " + prefix + strings.Join(similar, " or "+prefix) + "?"
}

// Usagef returns a UsageError with a formatted text.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
