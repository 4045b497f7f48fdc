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

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/edge/nginx"
	"github.com/floodweir/weir/policy"
)

func (w *app) edge() *cobra.Command {
	c := &cobra.Command{
		Use:   "edge",
		Short: "Have nginx decide by the policies of a file, without Weir in the path",
		Long: "Make what nginx, with its module for Lua, or OpenResty decides by: the same policies, in the same Redis.\n\n" +
			"docs/edge.md is the reference, docs/nginx.md says when to do this and when not.",
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(w.edgeNginx(), w.edgeLua())
	return c
}

const localUsage = "what nginx does for on_store_error: local, which it cannot: `open` or closed"

func (w *app) edgeNginx() *cobra.Command {
	var lua, local, init, initWorker, to string
	var only []string
	flags := map[string]*string{"store": new(string), "policies": new(string)}
	c := &cobra.Command{
		Use:   "nginx FILE",
		Short: "Print a configuration of nginx with the policies of a file",
		Long: "Print a configuration for the http block of nginx that has the policies of FILE (- is standard input) in\n" +
			"it. Its first lines say what else to do. All that nginx cannot do as Weir does is an error.\n\n" +
			"With -o FILE it is written there, for its owner alone as it may have a password in it, and only if all is\n" +
			"well: until then FILE stays what it was.\n\n" +
			"The store is --store, else WEIR_STORE, else that of the file.\n\n" +
			"Exit codes: 0 done, 1 a file that is not good or that nginx cannot do, 2 wrong usage or a file that cannot be read.",
		Example: "  weir edge nginx weir.yaml -o /etc/nginx/conf.d/weir.conf",
		Args:    usage(cobra.ExactArgs(1)),
	}
	c.Flags().StringVar(&lua, "lua", edge.DefaultLua, "`DIR` to which weir edge lua writes")
	c.Flags().StringVar(flags["store"], "store", "", "the Redis at `URL`, such as redis://127.0.0.1:6379")
	c.Flags().StringVar(flags["policies"], "policies", "", "`file`, or store for those that weir apply published there, and the file's until then")
	c.Flags().StringVar(&local, "local", "", localUsage)
	c.Flags().StringArrayVar(&only, "only", nil, "compile the policy `NAME` alone; may be repeated")
	c.Flags().StringVar(&init, "init", "", "run the Lua in `FILE` in init_by_lua, too, of which nginx takes one")
	c.Flags().StringVar(&initWorker, "init-worker", "", "run the Lua in `FILE` in init_worker_by_lua, too")
	c.Flags().StringVarP(&to, "output", "o", "", "write the configuration to `FILE`")
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("output") && to == "" {
			return &exit{exitUsage, errors.New(`--output "": want the name of a file`)}
		}
		if err := checkLocal(local); err != nil {
			return err
		}
		f, _, err := w.readPolicies(args[0])
		if err != nil {
			return err
		}
		given := map[string]string{}
		for name, value := range flags {
			if c.Flags().Changed(name) {
				given[name] = *value
			}
		}
		s, err := config.Complete(f, config.Source{File: f.Name, Flags: given, Env: edgeEnv(w.getenv)})
		if err != nil {
			return &exit{exitUsage, err}
		}
		text, err := edge.Conf(f.Policies, edge.Options{Only: only, Local: policy.FailMode(local)}, edge.Input{
			Store: s.Store, Deadline: s.Deadline, Fields: s.Gateway.Fields, Jitter: s.Gateway.RetryJitter,
			Follow: s.Published, Client: s.Gateway.Client, File: f.Name, Lua: lua, Init: init, InitWorker: initWorker,
		})
		if err != nil {
			return err
		}
		if to != "" {
			if err := replace(to, []byte(text), 0o600); err != nil {
				return fmt.Errorf("edge: %w", err)
			}
			return nil
		}
		_, err = io.WriteString(w.stdout, text)
		return err
	}
	return c
}

// checkLocal reports what is wrong with a --local.
func checkLocal(v string) error {
	if v != "" && v != string(policy.Open) && v != string(policy.Closed) {
		return &exit{exitUsage, fmt.Errorf("--local %q: want open or closed", v)}
	}
	return nil
}

// edgeEnv is the environment as far as it is about what nginx decides by.
func edgeEnv(getenv func(string) string) func(string) string {
	return func(name string) string {
		if slices.Contains([]string{"WEIR_STORE", "WEIR_POLICIES", "WEIR_DEADLINE"}, name) {
			return getenv(name)
		}
		return ""
	}
}

func (w *app) edgeLua() *cobra.Command {
	return &cobra.Command{
		Use:   "lua DIR",
		Short: "Write the Lua that nginx decides with",
		Long: "Write the Lua that the configuration of `weir edge nginx` wants into DIR, which is made if it is not there.\n" +
			"What an older weir wrote there is replaced, each file at once; nginx takes the new ones when it is reloaded.\n\n" +
			"Exit codes: 0 done, 1 not done, 2 wrong usage.",
		Example: "  weir edge lua /etc/nginx/weir",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := writeLua(args[0])
			if err != nil {
				return fmt.Errorf("edge: %w", err)
			}
			_, err = fmt.Fprintf(w.stdout, "wrote %d files to %s\n", n, args[0])
			return err
		},
	}
}

// writeLua writes the files of package nginx to a directory, and says how many.
func writeLua(dir string) (n int, err error) {
	if dir == "" {
		return 0, errors.New(`DIR "": want the name of a directory`)
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
			return os.Chmod(to, 0o755) // whatever the umask
		}
		text, err := nginx.Files.ReadFile(name)
		if err != nil {
			return err
		}
		n++
		return replace(to, text, 0o644) // all may read it, as workers have to
	})
	return n, err
}

// replace makes a file what text is: at every moment it is there whole, as it was or as
// it becomes.
func replace(name string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".weir-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then if all went well
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}
