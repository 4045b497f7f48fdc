package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/atomicfile"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/cmd/weir/internal/progress"
	"github.com/floodweir/weir/edge/nginx"
	"github.com/floodweir/weir/policy"
)

func edgeCommand(w *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "edge",
		Short: "Enforce the policies of a file in nginx, without a Weir process",
		Long: "Write the files with which nginx (with the Lua module) or OpenResty enforces the same policies in the same Redis.\n\n" +
			"docs/edge.md is the reference; docs/nginx.md compares this with the other ways.",
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(edgeNginxCommand(w), edgeLuaCommand(w))
	return c
}

const localUsage = "`open` or closed: replaces on_store_error: local, which nginx does not support; closed by default"

func edgeNginxCommand(w *app) *cobra.Command {
	var lua, local, init, initWorker, to string
	var only []string
	flags := map[string]*string{"store": new(string), "policies": new(string)}
	c := &cobra.Command{
		Use:   "nginx FILE",
		Short: "Print an nginx configuration with the policies of a file",
		Long: "Print a configuration for the http block of nginx with the policies of FILE (- is standard input). Its\n" +
			"first lines describe the other steps. A policy that nginx does not support is an error.\n\n" +
			"-o FILE replaces FILE atomically if there is no error. Only its owner can read it, because it may contain a\n" +
			"password.\n\n" +
			"The store is --store, else WEIR_STORE, else the one in the file.\n\n" +
			"Exit codes: 0 done, 1 invalid or unsupported file, 2 wrong usage or unreadable file.",
		Example: "  weir edge nginx weir.yaml -o /etc/nginx/conf.d/weir.conf",
		Args:    usage(cobra.ExactArgs(1)),
	}
	c.Flags().StringVar(&lua, "lua", edge.DefaultLua, "`DIR` of the files of weir edge lua")
	c.Flags().StringVar(flags["store"], "store", "", "the Redis at `URL`, such as redis://127.0.0.1:6379")
	c.Flags().StringVar(flags["policies"], "policies", "", "`file`, or store for the policies published with weir apply; those of the file until then")
	c.Flags().StringVar(&local, "local", "", localUsage)
	c.Flags().StringArrayVar(&only, "only", nil, "compile only the policy `NAME`; may be repeated")
	c.Flags().StringVar(&init, "init", "", "also run the Lua in `FILE` in init_by_lua, which nginx allows once")
	c.Flags().StringVar(&initWorker, "init-worker", "", "also run the Lua in `FILE` in init_worker_by_lua")
	c.Flags().StringVarP(&to, "output", "o", "", "write the configuration to `FILE`")
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("output") && to == "" {
			return &exit{exitUsage, errors.New(`--output "": want a file name`)}
		}
		if err := checkLocal(local); err != nil {
			return err
		}
		f, _, err := w.readPolicies(args[0], false)
		if err != nil {
			return err
		}
		given := map[string]string{}
		for name, value := range flags {
			if c.Flags().Changed(name) {
				given[name] = *value
			}
		}
		s, err := config.Complete(f, config.Source{File: f.Name, Flags: given, Env: edgeEnv(w.getenv), AnyRegion: true})
		if err != nil {
			return &exit{exitUsage, err}
		}
		p := progress.Start(w.stderr, progress.Doing("compiling policies"))
		defer p.Done()
		text, err := edge.Conf(f.Policies, edge.Options{Only: only, Local: policy.FailMode(local), Regions: f.Regions != nil}, edge.Input{
			Store: s.Store, Deadline: s.Deadline, Fields: s.Gateway.Fields, Jitter: s.Gateway.RetryJitter,
			Follow: s.Published, Client: s.Gateway.Client, File: f.Name, Lua: lua, Init: init, InitWorker: initWorker,
		})
		if err != nil {
			return err
		}
		if to != "" {
			if err := atomicfile.Write(to, []byte(text), 0o600); err != nil {
				return fmt.Errorf("edge: %w", err)
			}
			n := len(only)
			if n == 0 {
				n = len(f.Policies.Policies())
			}
			p.Report("wrote %s with %s", to, progress.Count(n, "policy"))
			return nil
		}
		_, err = io.WriteString(w.stdout, text)
		return err
	}
	return c
}

// checkLocal validates --local.
func checkLocal(v string) error {
	if v != "" && v != string(policy.Open) && v != string(policy.Closed) {
		return &exit{exitUsage, fmt.Errorf("--local %q: want open or closed", v)}
	}
	return nil
}

// edgeEnv returns getenv restricted to the variables that concern nginx.
func edgeEnv(getenv func(string) string) func(string) string {
	return func(name string) string {
		if slices.Contains([]string{"WEIR_STORE", "WEIR_POLICIES", "WEIR_DEADLINE"}, name) {
			return getenv(name)
		}
		return ""
	}
}

func edgeLuaCommand(w *app) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "lua DIR",
		Short: "Write the Lua files that nginx runs",
		Long: "Write the Lua files for a configuration of `weir edge nginx` to DIR, which is created if necessary.\n" +
			"Files of an earlier version are replaced atomically, one by one; nginx uses them after a reload.\n\n" +
			"Exit codes: 0 done, 1 not done, 2 wrong usage.",
		Example: "  weir edge lua /etc/nginx/weir",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := writeLua(args[0])
			if err != nil {
				return fmt.Errorf("edge: %w", err)
			}
			if asJSON {
				return w.printJSON(map[string]any{"directory": args[0], "files": n})
			}
			_, err = fmt.Fprintf(w.stdout, "wrote %d files to %s\n", n, args[0])
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// writeLua writes the files of package nginx to a directory and returns their number.
func writeLua(dir string) (n int, err error) {
	if dir == "" {
		return 0, errors.New(`DIR "": want a directory name`)
	}
	_, there := os.Stat(dir)
	err = fs.WalkDir(nginx.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil || name == "." && there == nil {
				return err
			}
			return os.Chmod(to, 0o755) // regardless of the umask
		}
		text, err := nginx.Files.ReadFile(name)
		if err != nil {
			return err
		}
		n++
		return atomicfile.Write(to, text, 0o644) // nginx workers run as another user
	})
	return n, err
}
