package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

// frontKind is a kind of front.
type frontKind struct {
	name  string
	files func(front.Config) (nginx, weir string, err error) // nginx is empty if the kind needs none
	takes []string                                           // flags that only some kinds accept
}

var frontKinds = []frontKind{
	{"gateway", func(f front.Config) (nginx, weir string, err error) {
		weir, err = f.Gateway()
		return "", weir, err
	}, []string{"admin"}},
	{"asking", front.Config.AuthRequest, []string{"admin", "weir"}},
	{"lua", front.Config.Lua, nil},
}

func (w *environment) front() *cobra.Command {
	var f front.Config
	cmd := &cobra.Command{
		Use:   "front (gateway | asking | lua) DIRECTORY",
		Short: "Write the configuration of a proxy before the shop",
		Long: "Write the configuration of a proxy that applies the shop's limits in front of it:\n\n" +
			"  gateway  Weir's gateway: weir.yaml, for `weir serve weir.yaml`\n" +
			"  asking   nginx.conf, with limit_req, and weir.yaml of the Weir that it calls\n" +
			"  lua      nginx.conf and weir.yaml, for `weir edge nginx weir.yaml` and a Redis\n\n" +
			"Each file is complete, and its first lines say how to start it. A new sale needs\n" +
			"no change. Serve the shop behind it with --front and --trusted-proxies.",
		Args: command.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] == "" {
				return command.Usagef("DIRECTORY: got none, want the directory for the files")
			}
			kind, err := kindOf(cmd, args[0])
			if err != nil {
				return err
			}
			nginx, weir, err := kind.files(f)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[1], 0o755); err != nil {
				return err
			}
			for _, file := range []struct {
				name, text string
				secret     bool
			}{{"weir.yaml", weir, f.Store != ""}, {"nginx.conf", nginx, false}} {
				if file.text == "" {
					continue
				}
				path := filepath.Join(args[1], file.name)
				if err := writeFront(path, file.text, file.secret); err != nil {
					return err
				}
				fmt.Fprintln(w.stdout, path)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Listen, "listen", "127.0.0.1:8000", "the address for buyers, `HOST:PORT`")
	flags.StringSliceVar(&f.Shops, "shop", []string{run.DefaultShop}, "the `HOST:PORT` of the shop; for nginx, of each of its processes")
	flags.StringVar(&f.Weir, "weir", "127.0.0.1:8080", "the address of the Weir for asking, `HOST:PORT`")
	flags.StringVar(&f.Admin, "admin", "", "the address of the metrics, for gateway and asking, `HOST:PORT` (disabled by default)")
	flags.StringVar(&f.Store, "store", "", "the `URL` of the Redis for the limits (memory by default)")
	flags.StringSliceVar(&f.Trusted, "trusted-proxies", nil, "`ADDRESSES` or prefixes of proxies in front of this one")
	flags.StringVar(&f.Address, "address", "", "the `LIMIT` per address: 20/s burst 40 by default, off for none")
	flags.StringVar(&f.Pages, "pages", "", "the `LIMIT` per address outside /api/: 100/s burst 400 by default, off for none")
	flags.StringVar(&f.User, "user", "", "the `LIMIT` per user: 2/s burst 5 by default, off for none")
	flags.StringVar(&f.Tickets, "tickets", "", "the `LIMIT` of each sale for tickets and polls: 20000/s burst 40000 by default, off for none")
	flags.StringSliceVar(&f.KilledSales, "killed-sales", nil, "the kill switch for the sales with these `IDS`")
	flags.BoolVar(&f.Killed, "killed", false, "the kill switch: refuse every change")
	return cmd
}

// kindOf returns the kind of front with this name, and checks the flags.
func kindOf(cmd *cobra.Command, name string) (frontKind, error) {
	i := slices.IndexFunc(frontKinds, func(k frontKind) bool { return k.name == name })
	if i < 0 {
		return frontKind{}, command.Usagef("%q: want gateway, asking or lua", name)
	}
	for _, flag := range []string{"admin", "weir"} {
		f := cmd.Flags().Lookup(flag)
		if !f.Changed || slices.Contains(frontKinds[i].takes, flag) {
			continue
		}
		var with []string
		for _, k := range frontKinds {
			if slices.Contains(k.takes, flag) {
				with = append(with, k.name)
			}
		}
		return frontKind{}, command.Usagef("--%s %q: %s does not take it: want it with %s alone", flag, f.Value, name, strings.Join(with, " and "))
	}
	return frontKinds[i], nil
}

// writeFront writes a file of a front. The URL of a store may contain a password; then only the
// owner can read the file, also if it existed before.
func writeFront(path, text string, secret bool) error {
	mode := os.FileMode(0o644)
	if secret {
		mode = 0o600
		if err := os.Chmod(path, mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.WriteFile(path, []byte(text), mode)
}
