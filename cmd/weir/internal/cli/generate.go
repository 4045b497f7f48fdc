package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/generate"
	"github.com/floodweir/weir/cmd/weir/internal/progress"
)

func generateCommand(w *app) *cobra.Command {
	var check, asJSON bool
	c := &cobra.Command{
		Use:   "generate [PACKAGES]",
		Short: "Generate Go wrappers for functions with //weir:limit directives",
		Long: "Generate wrappers for the //weir:limit directives of Go packages, in one file per package,\n" +
			"NAME_weir.go. PACKAGES are patterns of the go command; default: the package in the current\n" +
			"directory. Call it from a line in one of the files:\n\n" +
			"\t//go:generate weir generate\n\n" +
			"The file of a package without directives is removed.\n\n" +
			"Exit codes: 0 done, 1 invalid directives or packages, or with --check a file that would\n" +
			"change, 2 wrong usage.",
		RunE: func(c *cobra.Command, args []string) error {
			p := progress.Start(w.stderr, progress.Doing("reading packages"))
			r, err := generate.Generate(c.Context(), generate.Config{Patterns: args})
			p.Done()
			if err != nil {
				return err
			}
			if asJSON {
				return w.generatedJSON(r, check)
			}
			return w.generated(r, check, p)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "fail if a file would change, without writing")
	jsonFlag(c, &asJSON)
	return c
}

// generated writes the files, or prints the errors of the directives.
func (w *app) generated(r *generate.Result, check bool, p *progress.Progress) error {
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
	did := "checked"
	if !check {
		if err := r.Write(); err != nil {
			return err
		}
		did = fmt.Sprintf("changed %d of", len(changes))
	}
	limits := 0
	for _, f := range r.Files {
		limits += f.Limits
	}
	p.Report("%s %s with %s", did, progress.Count(len(r.Files), "file"), progress.Count(limits, "limited function"))
	if check && len(changes) > 0 {
		return &exit{code: exitFailed}
	}
	return nil
}

// generatedJSON is like generated, with one JSON document.
func (w *app) generatedJSON(r *generate.Result, check bool) error {
	type file struct {
		Path    string `json:"path"`
		Limits  int    `json:"limits"` // 0: removed
		Changed bool   `json:"changed"`
	}
	changes, files := r.Changes(), []file{}
	for _, f := range r.Files {
		changed := slices.ContainsFunc(changes, func(c generate.File) bool { return c.Path == f.Path })
		files = append(files, file{f.Path, f.Limits, changed})
	}
	if err := w.printJSON(map[string]any{"files": files, "faults": append([]string{}, r.Faults...)}); err != nil {
		return err
	}
	if len(r.Faults) > 0 || check && len(changes) > 0 {
		return &exit{code: exitFailed}
	}
	if check {
		return nil
	}
	return r.Write()
}
