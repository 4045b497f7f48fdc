package cli

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/run"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// maxFile is how much of a file is read: more than a policy file may have.
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
			f, _, err := w.good(args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(w.stdout, summary(args[0], f))
			return err
		},
	}
}

// complete reports what weir serve would still find wrong with a good file.
func complete(f *weirfile.File) error {
	c, err := config.Complete(f, config.Source{File: f.Name, Env: func(string) string { return "" }})
	if err == nil {
		err = run.Check(c)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

// good reads a policy file and its text. Of one that is not good it says all that is
// wrong.
func (w *world) good(name string) (*weirfile.File, string, error) {
	data, err := w.read(name)
	if err != nil {
		return nil, "", &exit{exitUsage, err}
	}
	if name == "-" {
		name = "stdin"
	}
	f, err := weirfile.Parse(name, data)
	if err == nil {
		err = complete(f)
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(w.stderr, strings.TrimSuffix(line, "\n")) // bare: editors jump to file:line:column
		}
		return nil, "", &exit{code: exitFailed}
	}
	return f, string(data), nil
}

// read is the bytes of a file, or of standard input for "-".
func (w *world) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(w.stdin, maxFile))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
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
			key = append(key, k.String())
		}
		fmt.Fprintf(&b, "policy: %s: %s by %s%s", c.Name, strings.Join(limits, " and "), strings.Join(key, ", "), about(c.Match))
		if more := beside(c); len(more) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(more, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// about is which requests a policy is about, in words; "" for all.
func about(m policy.Match) string {
	var b strings.Builder
	say := func(before string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(&b, " %s %s", before, strings.Join(list, " or "))
		}
	}
	say("for", m.Methods)
	say("at", m.Paths)
	say("of", m.Hosts)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		say("with "+name+":", m.Headers[name])
	}
	return b.String()
}

// beside is what differs from the defaults.
func beside(c policy.Config) (more []string) {
	if c.Mode != policy.Enforce {
		more = append(more, string(c.Mode))
	}
	if c.Cost != 1 {
		more = append(more, fmt.Sprintf("cost %d", c.Cost))
	}
	if c.OnDenied.Status != http.StatusTooManyRequests {
		more = append(more, fmt.Sprintf("status %d", c.OnDenied.Status))
	}
	if c.OnStoreError != policy.Open {
		more = append(more, string(c.OnStoreError)+" if the store fails")
	}
	switch n := len(c.Overrides); n {
	case 0:
	case 1:
		more = append(more, "1 override")
	default:
		more = append(more, fmt.Sprintf("%d overrides", n))
	}
	return more
}
