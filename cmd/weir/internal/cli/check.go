package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// maxFile is the largest file that is read from standard input.
const maxFile = 16 << 20

func (w *world) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a policy file is good, or all that is wrong with it",
		Long: "Read the policy file FILE (- is standard input) and say what it means, or everything that is wrong\n" +
			"with it as file:line:column.\n\n" +
			"Exit codes: 0 good, 1 not good, 2 wrong usage or a file that cannot be read.",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := w.load(args[0])
			var path *fs.PathError
			if errors.As(err, &path) {
				return &exit{exitUsage, err}
			}
			if err != nil {
				for line := range strings.Lines(err.Error()) {
					fmt.Fprintln(w.stderr, strings.TrimSuffix(line, "\n")) // bare: editors jump to file:line:column
				}
				return &exit{code: exitFailed}
			}
			_, err = io.WriteString(w.stdout, summary(args[0], f))
			return err
		},
	}
}

func (w *world) load(name string) (*weirfile.File, error) {
	if name != "-" {
		return weirfile.Load(name)
	}
	data, err := io.ReadAll(io.LimitReader(w.stdin, maxFile))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: "standard input", Err: err}
	}
	return weirfile.Parse("stdin", data)
}

func summary(name string, f *weirfile.File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: OK\n", name)
	if f.Store != "" {
		fmt.Fprintf(&b, "store: %s\n", config.Redacted(f.Store))
	}
	for _, r := range f.Gateway.Routes {
		fmt.Fprintf(&b, "route: %s%s -> %s\n", r.Host, r.Path, r.Upstream.Redacted())
	}
	for _, p := range f.Policies.Policies() {
		c := p.Config()
		var limits, key []string
		for _, l := range c.Limits {
			limits = append(limits, l.String())
		}
		for _, k := range c.Key {
			part := string(k.Source)
			if k.Name != "" {
				part += ":" + k.Name
			}
			key = append(key, part)
		}
		fmt.Fprintf(&b, "policy: %s: %s by %s", c.Name, strings.Join(limits, " and "), strings.Join(key, ", "))
		if c.Mode != policy.Enforce {
			fmt.Fprintf(&b, " (%s)", c.Mode)
		}
		if n := len(c.Overrides); n > 0 {
			fmt.Fprintf(&b, ", %d overrides", n)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
