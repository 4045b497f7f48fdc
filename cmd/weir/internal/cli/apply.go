package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/cmd/weir/internal/published"
	"github.com/floodweir/weir/cmd/weir/internal/run"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

// publishOptions are the flags of apply, rollback and versions.
type publishOptions struct {
	store string
	note  string
	after int64
	dry   bool
	local string   // replaces on_store_error: local in nginx
	only  []string // policies for nginx; all if empty
}

const publishCodes = "Exit codes: 0 done, 1 invalid file or not done, 2 wrong usage."

func (w *app) apply() *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish the policies of a file to all nodes of a store",
		Long: "Publish the policies of FILE (- is standard input) in Redis. Every `weir serve --policies store` with that\n" +
			"store uses them within a second. The file is checked first; only its policies are published.\n" +
			"An nginx with a configuration of `weir edge nginx --policies store` follows too. If it does not support a\n" +
			"policy, it keeps its current policies, and standard error reports why.\n\n" +
			"The store is --store, else WEIR_STORE, else the one in the file. " + publishCodes,
		Example: "  weir apply weir.yaml --store redis://127.0.0.1:6379 --note 'double the limit for the sale'\n" +
			"  weir apply weir.yaml --after 7     # only if 7 is still the current version",
		Args: usage(cobra.ExactArgs(1)),
	}
	p.flags(c)
	c.Flags().Int64Var(&p.after, "after", 0, "publish only if `VERSION` is the current version (0: none)")
	c.Flags().BoolVar(&p.dry, "dry-run", false, "check the file without publishing")
	c.RunE = func(c *cobra.Command, args []string) error {
		f, text, err := w.readPolicies(args[0])
		if err != nil {
			return err
		}
		if files := weirfile.Includes(args[0]); len(files) > 0 {
			return &exit{exitUsage, fmt.Errorf("%s includes %s: want overrides in the file itself, only its text is published", args[0], files[0])}
		}
		if err := checkLocal(p.local); err != nil {
			return err
		}
		for _, name := range p.only {
			if f.Policies.Policy(name) == nil {
				return &exit{exitUsage, fmt.Errorf("--edge-only %q: want the name of a policy in the file", name)}
			}
		}
		d := published.Draft{Text: text, By: author(w.getenv), Note: p.note, Edge: p.edge(w, f)}
		if c.Flags().Changed("after") {
			d.After = &p.after
		}
		if p.store == "" && w.getenv("WEIR_STORE") == "" {
			p.store = f.Store
		}
		return w.publish(c.Context(), p.store, p.dry, d)
	}
	return c
}

func (p *publishOptions) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.store, "store", "", "`URL` of the Redis, such as redis://127.0.0.1:6379")
	c.Flags().StringVar(&p.note, "note", "", "`TEXT` with the reason, shown by weir versions")
	c.Flags().StringVar(&p.local, "local", "", localUsage)
	c.Flags().StringArrayVar(&p.only, "edge-only", nil, "compile only the policy `NAME` for nginx; may be repeated")
}

// maxReason is the maximum length of an error that is published for nginx, in bytes.
const maxReason = 1000

// edge returns the plan of the policies of f for nginx, in JSON. If there is none, it
// returns the error in JSON and prints it.
func (p *publishOptions) edge(w *app, f *weirfile.File) string {
	plan, err := edge.Compile(f.Policies, edge.Options{Only: p.only, Local: policy.FailMode(p.local)})
	if err == nil {
		return plan.JSON()
	}
	return noEdge(w.stderr, err)
}

// noEdge prints why nginx has no plan, and returns that in JSON.
func noEdge(stderr io.Writer, err error) string {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "weir: warning: nginx keeps its current policies: %s\n", strings.TrimSuffix(line, "\n"))
	}
	text, _ := json.Marshal(map[string]string{"error": fmt.Sprintf("%.*s", maxReason, err)}) // no error: strings only
	return string(text)
}

func (w *app) rollback() *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Publish the policies of an earlier version again",
		Long: "Republish VERSION as a new version; without VERSION, the one before the\n" +
			"current. `weir versions` lists them.\n\n" + publishCodes,
		Args: usage(cobra.MaximumNArgs(1)),
	}
	p.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		var number int64
		if err := checkLocal(p.local); err != nil {
			return err
		}
		if len(args) == 1 {
			var err error
			if number, err = strconv.ParseInt(args[0], 10, 64); err != nil || number < 1 {
				return &exit{exitUsage, fmt.Errorf("rollback: VERSION %q: want a version number; weir versions lists them", args[0])}
			}
		}
		return w.withConn(c.Context(), p.store, func(ctx context.Context, conn redisstore.Conn) error {
			current, err := published.Current(ctx, conn)
			if err != nil {
				return err
			}
			switch {
			case current == 0:
				return errors.New("rollback: no policies published yet")
			case number == 0 && current == 1:
				return errors.New("rollback: version 1 is the current version: there is none before it")
			case number == 0:
				number = current - 1
			}
			v, err := published.Get(ctx, conn, number)
			if errors.Is(err, published.ErrNone) {
				return fmt.Errorf("rollback: version %d not found (see weir versions)", number)
			}
			if err != nil {
				return err
			}
			note := p.note
			if note == "" {
				note = fmt.Sprintf("back to version %d", number)
			}
			d := published.Draft{Text: v.Text, By: author(w.getenv), Note: note, After: &current}
			if f, err := weirfile.Parse(fmt.Sprintf("version %d", number), []byte(v.Text)); err != nil {
				d.Edge = noEdge(w.stderr, err)
			} else {
				d.Edge = p.edge(w, f)
			}
			n, err := published.Publish(ctx, conn, d)
			return w.printPublished(n, err)
		})
	}
	return c
}

func (w *app) versions() *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "versions [VERSION]",
		Short: "List the published versions, or print one of them",
		Long:  "List the published versions in a Redis, the current one first, or print the file of VERSION.\n\n" + publishCodes,
		Args:  usage(cobra.MaximumNArgs(1)),
	}
	c.Flags().StringVar(&p.store, "store", "", "`URL` of the Redis, such as redis://127.0.0.1:6379")
	c.RunE = func(c *cobra.Command, args []string) error {
		return w.withConn(c.Context(), p.store, func(ctx context.Context, conn redisstore.Conn) error {
			if len(args) == 1 {
				n, err := strconv.ParseInt(args[0], 10, 64)
				if err != nil || n < 1 {
					return &exit{exitUsage, fmt.Errorf("versions: VERSION %q: want a version number; weir versions lists them", args[0])}
				}
				v, err := published.Get(ctx, conn, n)
				if errors.Is(err, published.ErrNone) {
					return fmt.Errorf("versions: version %d not found (the last %d are kept)", n, published.Keep)
				}
				if err == nil {
					_, err = io.WriteString(w.stdout, v.Text)
				}
				return err
			}
			return w.list(ctx, conn)
		})
	}
	return c
}

func (w *app) list(ctx context.Context, conn redisstore.Conn) error {
	vs, err := published.List(ctx, conn)
	if err != nil {
		return err
	}
	if len(vs) == 0 {
		_, err := fmt.Fprintln(w.stdout, "no policies published yet")
		return err
	}
	t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tAT\tBY\tNOTE")
	for _, v := range vs {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", v.Number, v.At.UTC().Format(time.DateTime), oneLine(v.By), oneLine(v.Note))
	}
	return t.Flush()
}

// oneLine quotes text of other users for a terminal.
func oneLine(s string) string {
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

func (w *app) publish(ctx context.Context, store string, dry bool, d published.Draft) error {
	return w.withConn(ctx, store, func(ctx context.Context, conn redisstore.Conn) error {
		if dry {
			current, err := published.Current(ctx, conn)
			if err == nil {
				_, err = fmt.Fprintf(w.stdout, "valid; it would be version %d\n", current+1)
			}
			return err
		}
		v, err := published.Publish(ctx, conn, d)
		return w.printPublished(v, err)
	})
}

// printPublished prints the result of publishing.
func (w *app) printPublished(v published.Version, err error) error {
	var c *published.Conflict
	switch {
	case errors.As(err, &c):
		return fmt.Errorf("not published: the current version is %d (see weir versions)", c.Current)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w.stdout, "published version %d\n", v.Number)
	return err
}

// withConn runs f with a connection to the store of the flag or the environment.
func (w *app) withConn(ctx context.Context, store string, f func(context.Context, redisstore.Conn) error) error {
	if store == "" {
		store = w.getenv("WEIR_STORE")
	}
	if store == "" || store == "memory" {
		return &exit{exitUsage, errors.New("--store: want the Redis with the published policies, such as redis://127.0.0.1:6379 (or WEIR_STORE)")}
	}
	if err := config.CheckStore(store); err != nil {
		return &exit{exitUsage, fmt.Errorf("--store %q: %w", config.Redacted(store), err)}
	}
	conn, stop, err := run.OpenConn(store)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return f(ctx, conn)
}

// author returns user and host for the list of versions.
func author(getenv func(string) string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if user := getenv("USER"); user != "" {
		return user + "@" + host
	}
	return host
}
