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
		Short: "Generate Go wrappers for functions with //weir:limit directives",
		Long: "Generate wrappers for the //weir:limit directives of Go packages, in one file per package,\n" +
			"NAME_weir.go. PACKAGES are patterns of the go command; default: the package in the current\n" +
			"directory. Call it from a line in one of the files:\n\n" +
			"\t//go:generate weir generate\n\n" +
			"The file of a package without directives is removed.\n\n" +
			"Exit codes: 0 done, 1 invalid directives, or with --check a file that would change,\n" +
			"2 wrong usage.",
		RunE: func(c *cobra.Command, args []string) error {
			r, err := generate.Generate(c.Context(), generate.Config{Patterns: args})
			if err != nil {
				return err
			}
			return w.generated(r, check)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "fail if a file would change, without writing")
	return c
}

// generated writes the files, or prints the errors of the directives.
func (w *app) generated(r *generate.Result, check bool) error {
	for _, f := range r.Faults {
		fmt.Fprintln(w.stderr, f) // bare: editors jump to file:line:column
	}
	if len(r.Faults) > 0 {
		return &exit{code: exitFailed}
	}
	if len(r.Files) == 0 {
		fmt.Fprintln(w.stderr, "weir: generate: no //weir:limit in these packages")
	}
	changes := r.Changes()
	for _, f := range changes {
		switch {
		case check:
			fmt.Fprintf(w.stderr, "%s: out of date: run weir generate\n", f.Path)
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
