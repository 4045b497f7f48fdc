package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
	"github.com/floodweir/weir/cmd/weir/internal/progress"
)

// exitListed is the exit code of an import that left something out.
const exitListed = 3

func importCommand(w *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Convert the configuration of another program to a policy file",
		Long: "Convert an nginx.conf, a configuration of envoyproxy/ratelimit, or rules of Sentinel to a policy file.\n\n" +
			"The file is written to standard output, or to -o FILE. A comment marks each policy with another meaning.\n" +
			"What a policy file cannot express is listed at the end of the file, and on standard error with its position.\n\n" +
			"Exit codes: 0 all converted, 3 something is listed, 1 invalid input, 2 wrong usage or unreadable file.",
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var to string
	var roots []string
	asJSON := false
	c.PersistentFlags().StringVarP(&to, "output", "o", "", "write the policy file to `FILE`")
	add := func(use, short string, args cobra.PositionalArgs, read func(args []string) (*importer.Result, error)) *cobra.Command {
		sub := &cobra.Command{
			Use: use, Short: short, Args: usage(args),
			RunE: func(_ *cobra.Command, args []string) error {
				p := progress.Start(w.stderr, progress.Doing("converting"))
				r, err := read(args)
				p.Done()
				if err != nil {
					return broken(w.stderr, err)
				}
				return w.imported(r, to, asJSON, p)
			},
		}
		jsonFlag(sub, &asJSON)
		c.AddCommand(sub)
		return sub
	}
	add("nginx NGINX.CONF", "Convert limit_req and limit_conn of an nginx.conf and its includes", cobra.ExactArgs(1), func(args []string) (*importer.Result, error) {
		for _, r := range roots {
			if err := nginxconf.CheckRoot(r); err != nil {
				return nil, &exit{exitUsage, fmt.Errorf("import: --%w", err)}
			}
		}
		return importer.Nginx(args[0], importer.Files{Roots: roots})
	}).Flags().StringArrayVar(&roots, "root", nil, "find files of absolute includes below `DIR`, or those below PREFIX in PREFIX=DIR; may be repeated")
	add("envoy PATH...", "Convert files or directories of envoyproxy/ratelimit", cobra.MinimumNArgs(1), func(args []string) (*importer.Result, error) {
		return importer.Envoy(args...)
	})
	functions := false
	add("sentinel RULES", "Convert rules of Sentinel or sentinel-golang in JSON, YAML or manifests of Kubernetes; - is standard input", cobra.ExactArgs(1), func(args []string) (*importer.Result, error) {
		data, err := w.read(args[0])
		if err != nil {
			return nil, err
		}
		name := args[0]
		if name == "-" {
			name = "stdin"
		}
		if functions {
			return importer.SentinelFunctions(name, data)
		}
		return importer.Sentinel(name, data)
	}).Flags().BoolVar(&functions, "functions", false, "for a Go program: write limits of resources that are not paths as rules of functions")
	return c
}

// broken prints the errors of an input that cannot be imported.
func broken(stderr io.Writer, err error) error {
	var wrong *exit
	if errors.As(err, &wrong) {
		return err
	}
	if fileCode(err) == exitUsage {
		return &exit{exitUsage, fmt.Errorf("import: %w", err)}
	}
	printFaults(stderr, err)
	return &exit{code: exitFailed}
}

// imported writes the policy file and prints what it does not express.
func (w *app) imported(r *importer.Result, to string, asJSON bool, p *progress.Progress) error {
	var err error
	if to != "" {
		err = os.WriteFile(to, []byte(r.Text), 0o644)
	}
	switch {
	case err != nil:
	case asJSON:
		err = w.printJSON(map[string]any{"text": r.Text, "policies": r.Policies, "listed": append([]importer.Item{}, r.Listed...)})
	case to == "":
		_, err = io.WriteString(w.stdout, r.Text)
	default:
		p.Report("wrote %s with %s, %s not converted,", to, progress.Count(r.Policies, "policy"), progress.Count(len(r.Listed), "setting"))
	}
	if err != nil {
		return &exit{exitFailed, fmt.Errorf("import: %w", err)}
	}
	for _, i := range r.Listed {
		if !asJSON {
			fmt.Fprintln(w.stderr, i)
		}
	}
	if len(r.Listed) > 0 {
		return &exit{code: exitListed}
	}
	return nil
}
