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

// publishing is what the commands about published policies share.
type publishOptions struct {
	store string
	note  string
	after int64
	dry   bool
	local string   // what nginx does for on_store_error: local
	only  []string // what nginx decides by; all if empty
}

const publishCodes = "Exit codes: 0 done, 1 not good or not done, 2 wrong usage."

func (w *app) apply() *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish the policies of a file to every node of a store",
		Long: "Publish the policies of FILE (- is standard input) in a Redis. Every `weir serve --policies store` with\n" +
			"that store follows within a second. The file is checked first; of what it says, nodes take the policies.\n" +
			"So does every nginx with a configuration of `weir edge nginx --policies store`. Of policies that it cannot do\n" +
			"it keeps those that it has, and standard error says why.\n\n" +
			"The store is --store, else WEIR_STORE, else that of the file. " + publishCodes,
		Example: "  weir apply weir.yaml --store redis://127.0.0.1:6379 --note 'twice the limit for the sale'\n" +
			"  weir apply weir.yaml --after 7     # only if 7 is still the current version",
		Args: usage(cobra.ExactArgs(1)),
	}
	p.flags(c)
	c.Flags().Int64Var(&p.after, "after", 0, "publish only if `VERSION` is the current one; 0 if there is to be none")
	c.Flags().BoolVar(&p.dry, "dry-run", false, "check, and publish nothing")
	c.RunE = func(c *cobra.Command, args []string) error {
		f, text, err := w.readPolicies(args[0])
		if err != nil {
			return err
		}
		if err := checkLocal(p.local); err != nil {
			return err
		}
		for _, name := range p.only {
			if f.Policies.Policy(name) == nil {
				return &exit{exitUsage, fmt.Errorf("--edge-only %q: want the name of a policy of the file", name)}
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
	c.Flags().StringVar(&p.store, "store", "", "the Redis at `URL`, such as redis://127.0.0.1:6379")
	c.Flags().StringVar(&p.note, "note", "", "`TEXT` that says why, for those who read weir versions")
	c.Flags().StringVar(&p.local, "local", "", localUsage)
	c.Flags().StringArrayVar(&p.only, "edge-only", nil, "nginx decides by the policy `NAME` alone; may be repeated")
}

// maxReason is how much of why there is no plan nginx is told.
const maxReason = 1000

// edge is what nginx decides by, in JSON: the plan of the policies of f or, if there is
// none, why. That is said, too.
func (p *publishOptions) edge(w *app, f *weirfile.File) string {
	plan, err := edge.Compile(f.Policies, edge.Options{Only: p.only, Local: policy.FailMode(p.local)})
	if err == nil {
		return plan.JSON()
	}
	return noEdge(w.stderr, err)
}

// noEdge says why nginx has nothing to decide by, to nginx in JSON.
func noEdge(stderr io.Writer, err error) string {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "weir: warning: an nginx that follows keeps what it has: %s\n", strings.TrimSuffix(line, "\n"))
	}
	text, _ := json.Marshal(map[string]string{"error": fmt.Sprintf("%.*s", maxReason, err)}) // of text alone
	return string(text)
}

func (w *app) rollback() *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Publish the policies of a former version again",
		Long: "Publish what VERSION said once more, as a version of its own; without VERSION, the one before the\n" +
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
				return &exit{exitUsage, fmt.Errorf("rollback: VERSION %q: want a number of weir versions", args[0])}
			}
		}
		return w.withConn(c.Context(), p.store, func(ctx context.Context, conn redisstore.Conn) error {
			current, err := published.Current(ctx, conn)
			if err != nil {
				return err
			}
			switch {
			case current == 0:
				return errors.New("rollback: nothing was published yet")
			case number == 0 && current == 1:
				return errors.New("rollback: version 1 is the current one and the first: there is none before it")
			case number == 0:
				number = current - 1
			}
			v, err := published.Get(ctx, conn, number)
			if errors.Is(err, published.ErrNone) {
				return fmt.Errorf("rollback: there is no version %d to go back to (see weir versions)", number)
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
		Short: "List the policies that were published, or print one of them",
		Long:  "List the versions that a Redis keeps, the current one first, or print the file of VERSION.\n\n" + publishCodes,
		Args:  usage(cobra.MaximumNArgs(1)),
	}
	c.Flags().StringVar(&p.store, "store", "", "the Redis at `URL`, such as redis://127.0.0.1:6379")
	c.RunE = func(c *cobra.Command, args []string) error {
		return w.withConn(c.Context(), p.store, func(ctx context.Context, conn redisstore.Conn) error {
			if len(args) == 1 {
				n, err := strconv.ParseInt(args[0], 10, 64)
				if err != nil || n < 1 {
					return &exit{exitUsage, fmt.Errorf("versions: VERSION %q: want a number of weir versions", args[0])}
				}
				v, err := published.Get(ctx, conn, n)
				if errors.Is(err, published.ErrNone) {
					return fmt.Errorf("versions: there is no version %d (the last %d are kept)", n, published.Keep)
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
		_, err := fmt.Fprintln(w.stdout, "nothing was published yet")
		return err
	}
	t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tAT\tBY\tNOTE")
	for _, v := range vs {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", v.Number, v.At.UTC().Format(time.DateTime), oneLine(v.By), oneLine(v.Note))
	}
	return t.Flush()
}

// oneLine is text from elsewhere, fit for a terminal.
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
				_, err = fmt.Fprintf(w.stdout, "good; it would be version %d\n", current+1)
			}
			return err
		}
		v, err := published.Publish(ctx, conn, d)
		return w.printPublished(v, err)
	})
}

// told says what came of publishing.
func (w *app) printPublished(v published.Version, err error) error {
	var c *published.Conflict
	switch {
	case errors.As(err, &c):
		return fmt.Errorf("not published: another version came first, and %d is the current one (see weir versions)", c.Current)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w.stdout, "published version %d\n", v.Number)
	return err
}

// with runs f with a connection to the store that a flag or the environment names.
func (w *app) withConn(ctx context.Context, store string, f func(context.Context, redisstore.Conn) error) error {
	if store == "" {
		store = w.getenv("WEIR_STORE")
	}
	if store == "" || store == "memory" {
		return &exit{exitUsage, errors.New("--store: want the Redis in which policies are published, such as redis://127.0.0.1:6379 (or WEIR_STORE)")}
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

// author is who publishes, as the machine knows them.
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
