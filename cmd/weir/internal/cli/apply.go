package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/cmd/weir/internal/edit"
	"github.com/floodweir/weir/cmd/weir/internal/publish"
	"github.com/floodweir/weir/cmd/weir/internal/run"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile/published"
)

// publishOptions are the flags of apply, rollback and versions.
type publishOptions struct {
	store string
	note  string
	after int64
	dry   bool
	json  bool
	local string   // replaces on_store_error: local in nginx
	only  []string // policies for nginx; all if empty

	warnings []string // for the result in JSON
}

const publishCodes = "Exit codes: 0 done, 1 invalid file or not done, 2 wrong usage."

func applyCommand(w *app) *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish the policies of a file to all nodes of a store",
		Long: "Publish the policies of FILE (- is standard input) in Redis. Every `weir serve --policies store` with that\n" +
			"store uses them within a second, as do Go programs, with the functions. The file is checked first.\n" +
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
		f, text, err := w.readPolicies(args[0], p.json)
		if err != nil {
			return err
		}
		if text, err = edit.Inline(args[0], text); err != nil {
			return &exit{exitUsage, err}
		}
		if err := checkLocal(p.local); err != nil {
			return err
		}
		for _, name := range p.only {
			if f.Policies.Policy(name) == nil {
				return &exit{exitUsage, fmt.Errorf("--edge-only %q: want the name of a policy in the file", name)}
			}
		}
		d := published.Draft{Text: text, By: author(w.getenv), Note: p.note, EdgeOnly: p.only, EdgeLocal: p.local}
		var unsupported error
		d.Edge, unsupported = publish.Plan(f, p.edge())
		p.warn(w.stderr, unsupported)
		if c.Flags().Changed("after") {
			d.After = &p.after
		}
		if p.store == "" && w.getenv("WEIR_STORE") == "" {
			p.store = f.Store
		}
		return p.publish(c.Context(), w, d)
	}
	return c
}

func (p *publishOptions) flags(c *cobra.Command) {
	jsonFlag(c, &p.json)
	c.Flags().StringVar(&p.store, "store", "", "`URL` of the Redis, such as redis://127.0.0.1:6379")
	c.Flags().StringVar(&p.note, "note", "", "`TEXT` with the reason, shown by weir versions")
	c.Flags().StringVar(&p.local, "local", "", localUsage)
	c.Flags().StringArrayVar(&p.only, "edge-only", nil, "compile only the policy `NAME` for nginx; may be repeated")
}

// edge returns the options of the plan for nginx.
func (p *publishOptions) edge() edge.Options {
	return edge.Options{Only: p.only, Local: policy.FailMode(p.local)}
}

// warn prints why nginx has no plan, or keeps it for the result in JSON.
func (p *publishOptions) warn(stderr io.Writer, unsupported error) {
	p.warnings = []string{}
	if unsupported == nil {
		return
	}
	for line := range strings.Lines(unsupported.Error()) {
		line = "nginx keeps its current policies: " + strings.TrimSuffix(line, "\n")
		if p.warnings = append(p.warnings, line); !p.json {
			fmt.Fprintf(stderr, "weir: warning: %s\n", line)
		}
	}
}

func rollbackCommand(w *app) *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Publish the policies of an earlier version again",
		Long: "Republish VERSION as a new version; without VERSION, the one before the\n" +
			"current. --edge-only and --local are those of VERSION unless given. `weir versions` lists them.\n\n" + publishCodes,
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
			b := publish.Rollback{To: number, By: author(w.getenv), Note: p.note, Edge: p.edge()}
			var v published.Version
			var unsupported error
			err := audited(ctx, w, conn, audit.Entry{Action: "rollback", Reason: p.note}, func() (_ published.Version, err error) {
				v, unsupported, err = b.Publish(ctx, conn)
				return v, err
			})
			p.warn(w.stderr, unsupported)
			if _, conflict := errors.AsType[*published.Conflict](err); err != nil && !conflict {
				return fmt.Errorf("rollback: %w", err)
			}
			return p.print(w, v, err)
		})
	}
	return c
}

func versionsCommand(w *app) *cobra.Command {
	var p publishOptions
	c := &cobra.Command{
		Use:   "versions [VERSION]",
		Short: "List the published versions, or print one of them",
		Long:  "List the published versions in a Redis, the current one first, or print the file of VERSION.\n\n" + publishCodes,
		Args:  usage(cobra.MaximumNArgs(1)),
	}
	c.Flags().StringVar(&p.store, "store", "", "`URL` of the Redis, such as redis://127.0.0.1:6379")
	jsonFlag(c, &p.json)
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
				switch {
				case err == nil && p.json:
					err = w.printJSON(v)
				case err == nil:
					_, err = io.WriteString(w.stdout, v.Text)
				}
				return err
			}
			return w.list(ctx, conn, p.json)
		})
	}
	return c
}

func (w *app) list(ctx context.Context, conn redisstore.Conn, asJSON bool) error {
	vs, err := published.List(ctx, conn)
	if err != nil {
		return err
	}
	if asJSON {
		for i := range vs {
			vs[i].Text = ""
		}
		return w.printJSON(map[string]any{"versions": append([]published.Version{}, vs...)})
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

// publish publishes d, or with --dry-run prints the version that it would be.
func (p *publishOptions) publish(ctx context.Context, w *app, d published.Draft) error {
	return w.withConn(ctx, p.store, func(ctx context.Context, conn redisstore.Conn) error {
		if p.dry {
			current, err := published.Current(ctx, conn)
			switch {
			case err == nil && p.json:
				err = w.printJSON(publishedResult{current + 1, true, p.warnings})
			case err == nil:
				_, err = fmt.Fprintf(w.stdout, "valid; it would be version %d\n", current+1)
			}
			return err
		}
		var v published.Version
		err := audited(ctx, w, conn, audit.Entry{Action: "apply", Reason: d.Note}, func() (_ published.Version, err error) {
			v, err = published.Publish(ctx, conn, d)
			return v, err
		})
		return p.print(w, v, err)
	})
}

// audited publishes, with an entry in the audit log. If the log is not writable, standard
// error reports it: a Redis user of an earlier release may access only the policies.
func audited(ctx context.Context, w *app, conn redisstore.Conn, e audit.Entry, publish func() (published.Version, error)) error {
	log, err := audit.New(audit.Config{Conn: func() redisstore.Conn { return conn }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	current, err := published.Current(ctx, conn)
	if err != nil {
		return err
	}
	e.Actor, e.Via, e.From = author(w.getenv), "cli", strconv.FormatInt(current, 10)
	e, lost := log.Append(ctx, e)
	v, err := publish()
	if e.OK = audit.Yes(); err != nil {
		e.OK, e.Error = audit.No(), err.Error()
	} else {
		e.To = strconv.FormatInt(v.Number, 10)
	}
	if lost == nil {
		lost = log.Finish(ctx, e)
	}
	if lost != nil {
		fmt.Fprintf(w.stderr, "weir: warning: not in the audit log: %v\n", lost)
	}
	return err
}

// A publishedResult is the result of apply and rollback in JSON.
type publishedResult struct {
	Version  int64    `json:"version"`
	DryRun   bool     `json:"dry_run"`
	Warnings []string `json:"warnings"`
}

// print prints the result of publishing.
func (p *publishOptions) print(w *app, v published.Version, err error) error {
	var c *published.Conflict
	switch {
	case errors.As(err, &c):
		return fmt.Errorf("not published: the current version is %d (see weir versions)", c.Current)
	case err != nil:
		return err
	case p.json:
		return w.printJSON(publishedResult{v.Number, false, p.warnings})
	}
	_, err = fmt.Fprintf(w.stdout, "published version %d\n", v.Number)
	return err
}

// withConn runs f with a connection to the store of the flag or the environment.
func (w *app) withConn(ctx context.Context, store string, f func(context.Context, redisstore.Conn) error) error {
	if store == "" {
		store = w.getenv("WEIR_STORE")
	}
	if !setup.Redis(store) {
		return &exit{exitUsage, errors.New("--store: want the Redis with the published policies, such as redis://127.0.0.1:6379 (or WEIR_STORE)")}
	}
	if err := config.CheckStore(store); err != nil {
		return &exit{exitUsage, fmt.Errorf("--store %q: %w", config.Redacted(store), err)}
	}
	ctx, done := w.wait(ctx, config.Redacted(store))
	defer done()
	conn, stop, err := run.OpenConn(store)
	if err != nil {
		return err
	}
	defer stop()
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
