package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/generate"
)

func (w *app) generate() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "generate [PACKAGES]",
		Short: "Write the Go code that //weir:limit directives stand for",
		Long: "Write the code that the //weir:limit directives of Go packages stand for into one file of each,\n" +
			"NAME_weir.go. PACKAGES are as those of the go command; the one in the current directory if there are\n" +
			"none. It is meant to be called by a line in one of the files:\n\n" +
			"\t//go:generate weir generate\n\n" +
			"A package without directives loses the file if it has one.\n\n" +
			"Exit codes: 0 done, 1 directives that cannot be followed, or with --check a file that would change,\n" +
			"2 wrong usage.",
		RunE: func(c *cobra.Command, args []string) error {
			r, err := generate.Generate(c.Context(), generate.Config{Patterns: args})
			if err != nil {
				return err
			}
			return w.generated(r, check)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write nothing, and fail if a file would change")
	return c
}

// generated writes what was made, or says what is wrong.
func (w *app) generated(r *generate.Result, check bool) error {
	for _, f := range r.Faults {
		fmt.Fprintln(w.stderr, f) // bare: editors jump to file:line:column
	}
	if len(r.Faults) > 0 {
		return &exit{code: exitFailed}
	}
	if len(r.Files) == 0 {
		fmt.Fprintln(w.stderr, "weir: generate: no //weir:limit in these packages, so nothing to write")
	}
	changes := r.Changes()
	for _, f := range changes {
		switch {
		case check:
			fmt.Fprintf(w.stderr, "%s: is not what weir generate writes: run it\n", f.Path)
		case f.Text == "":
			fmt.Fprintf(w.stdout, "%s: removed\n", f.Path)
		default:
			fmt.Fprintf(w.stdout, "%s: %d limited\n", f.Path, f.Limits)
		}
	}
	if check && len(changes) > 0 {
		return &exit{code: exitFailed}
	}
	if check {
		return nil
	}
	return r.Write()
}
