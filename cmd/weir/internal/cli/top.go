package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/top"
)

// topCommand returns `weir top`.
func topCommand(w *app) *cobra.Command {
	var admin, tokenFile string
	var once, lines bool
	var count int
	c := &cobra.Command{
		Use:   "top [URL]",
		Short: "Show the traffic of a running program in the terminal",
		Long: "Show requests, denials, nodes and the keys of policies, every second, from the admin interface at\n" +
			"URL (else WEIR_ADMIN, else " + defaultAdmin + ").\n\n" +
			"Keys: up, down (k, j) select a policy, Enter shows its keys, Esc goes back, Space pauses, q quits.\n" +
			"Without a terminal, or with --once, it prints one table.",
		Example: "  weir top\n" +
			"  weir top --json --count 60 https://gw-1:9090 --token-file admin-token | jq .totals",
		Args: usage(cobra.MaximumNArgs(1)),
	}
	f := c.Flags()
	adminFlags(c, &admin, &tokenFile)
	f.BoolVar(&once, "once", false, "print one table")
	f.BoolVar(&lines, "json", false, "print one line of JSON per second")
	f.IntVar(&count, "count", 0, "end after `N` lines of --json; 0: never")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case count < 0:
			return &exit{exitUsage, errors.New("top: --count " + strconv.Itoa(count) + ": want 0 or more")}
		case count > 0 && !lines:
			return &exit{exitUsage, errors.New("top: --count: want --json with it")}
		case once && lines && count == 0:
			count = 1
		}
		where := "--admin"
		if len(args) == 1 {
			if admin != "" {
				return &exit{exitUsage, errors.New("top: --admin: want it or a URL, not both")}
			}
			admin, where = args[0], "URL"
		}
		client, err := topClient(where, admin, tokenFile, w.getenv)
		if err != nil {
			return &exit{exitUsage, err}
		}
		switch in, out, ok := terminals(w.stdin, w.stdout); {
		case lines:
			err = top.Lines(c.Context(), client, count, w.stdout, w.stderr)
		case once || !ok:
			err = top.Once(c.Context(), client, w.stdout)
		default:
			err = top.Watch(c.Context(), client, in, out)
		}
		if err != nil {
			return fmt.Errorf("top: %w", err)
		}
		return nil
	}
	return c
}

func topClient(where, url, tokenFile string, getenv func(string) string) (c top.Client, err error) {
	if c.URL, err = adminURL("top", where, url, getenv); err != nil {
		return c, err
	}
	c.Token, err = readToken("top", tokenFile, "WEIR_ADMIN_TOKEN", getenv)
	return c, err
}

// terminals returns the terminal behind input and output. ok is false if one is something else.
func terminals(stdin io.Reader, stdout io.Writer) (in, out *os.File, ok bool) {
	in, isFile := stdin.(*os.File)
	out, alsoFile := stdout.(*os.File)
	ok = isFile && alsoFile && term.IsTerminal(in.Fd()) && term.IsTerminal(out.Fd())
	return in, out, ok
}
