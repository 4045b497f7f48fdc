package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/floodweir/weir/internal/fault"
)

// usage turns the error of an argument check into one of wrong usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case check(c, args) == nil:
			return nil
		case c.HasSubCommands() && len(args) > 0:
			return unknownCommand(c, args[0])
		}
		return wrongUsage(c, argumentsText(c.Use, args))
	}
}

// checkBuiltin gives the commands of cobra, help and completion, the errors of the others.
func checkBuiltin(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					err = unknownCommand(found, rest[0])
				}
				return err
			}
		case "completion":
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() } // without it cobra checks no arguments
			for _, c := range append(c.Commands(), c) {
				c.Args = usage(cobra.NoArgs)
			}
		}
	}
}

// unknownCommand returns an exit for a name that is none of the commands below c.
func unknownCommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		known = append(known, sub.Name())
	}
	text := fmt.Sprintf("unknown command %.80q", name)
	if m := fault.Meant(name, known); m != "" {
		text += ", did you mean " + m + "?"
	}
	return wrongUsage(c, text)
}

// wrongUsage returns an exit with the code for wrong usage of a command.
func wrongUsage(c *cobra.Command, text string) error {
	if _, command, ok := strings.Cut(c.CommandPath(), " "); ok {
		text = command + ": " + text
	}
	return &exit{exitUsage, fmt.Errorf("%s (see %s --help)", text, c.CommandPath())}
}

// flagText words an error of the parser of flags.
func flagText(flags *pflag.FlagSet, err error) string {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return valueText(value.GetFlag().Name, value.GetFlag().Value.Type(), value.GetValue(), value.Unwrap())
	case errors.As(err, &missing):
		name, _ := pflag.UnquoteUsage(missing.GetFlag())
		return fmt.Sprintf("--%s: want %s, got none", missing.GetFlag().Name, name)
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Sprintf("unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		var known []string
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if m := fault.Meant(unknown.GetSpecifiedName(), known); m != "" {
			return fmt.Sprintf("unknown flag --%.80s, did you mean --%s?", unknown.GetSpecifiedName(), m)
		}
		return fmt.Sprintf("unknown flag --%.80s", unknown.GetSpecifiedName())
	}
	return err.Error()
}

// argumentsText returns the text for a wrong number of arguments. The usage line of the command, such as
// "show POLICY KEY... [--json]", has those that are wanted between its name and its flags.
func argumentsText(usage string, got []string) string {
	var want []string
	for _, word := range strings.Fields(usage)[1:] {
		if strings.HasPrefix(strings.TrimLeft(word, "[("), "-") || word == "[flags]" {
			break
		}
		want = append(want, word)
	}
	if len(want) == 0 {
		want = []string{"no arguments"}
	}
	return fmt.Sprintf("want %s, got %s", strings.Join(want, " "), quoted(got))
}

func quoted(got []string) string {
	const most = 3 // arguments that are printed
	all := make([]string, 0, most+1)
	for i, arg := range got {
		if i == most {
			all = append(all, fmt.Sprintf("and %d more", len(got)-most))
			break
		}
		all = append(all, fmt.Sprintf("%.80q", arg))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, " ")
}

// kinds has the names of the types of flags that a parser rejects.
var kinds = map[string]string{
	"bool": "true or false", "duration": "a duration such as 1m30s", "float64": "a number",
	"int": "a whole number", "int64": "a whole number", "uint": "a whole number of 0 or more", "uint16": "a whole number from 0 to 65535",
	"uint32": "a whole number of 0 or more", "uint64": "a whole number of 0 or more",
}

// valueText returns the text for a value that a flag does not accept. Without a name for the type of the
// flag, it is the cause.
func valueText(flag, kind, value string, cause error) string {
	if want, ok := kinds[kind]; ok {
		return fmt.Sprintf("--%s: want %s, got %.80q", flag, want, value)
	}
	return fmt.Sprintf("--%s %.80q: %v", flag, value, cause)
}
