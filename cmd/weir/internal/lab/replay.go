package lab

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/replay"
	"github.com/floodweir/weir/weirfile"
)

// replayOptions are the flags of `weir replay`.
type replayOptions struct {
	logOptions
	policies, after  string
	running          bool
	admin, tokenFile string
	store            string
	version          int64
	html             string
	json, noPlot     bool
	top              int
}

func (c Config) replay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay LOG... [--policies FILE] [--after FILE] [--running] [--store URL]",
		Short: "Replay a log: which requests would policies deny",
		Long: "Replay the requests of logs through policies in virtual time, and report who would have been denied,\n" +
			"how often and when. Candidates and policies in shadow mode are counted apart. Policies are those of a\n" +
			"running program, a published version, or files; several are compared.\n\n" + logHelp +
			"Exit codes: 0 done, 1 invalid policies, or no connection to the program or store, 2 wrong usage or unreadable log.",
		Example: "  weir replay access.log --policies weir.yaml\n" +
			"  weir replay access.log.1.gz access.log --running --after next.yaml --html report.html\n" +
			"  zcat *.gz | weir replay - --policies weir.yaml --skip /healthz --skip '/static/*' --good partners.txt",
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.policies, "policies", "p", "", "a policy `FILE`")
	f.StringVar(&o.after, "after", "", "a policy `FILE` to compare")
	f.BoolVar(&o.running, "running", false, "the policies of a running program")
	f.StringVar(&o.admin, "admin", "", "`URL` of its admin interface; else WEIR_ADMIN, else http://127.0.0.1:9090")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token of the admin interface; else WEIR_ADMIN_TOKEN_FILE, else the token in WEIR_ADMIN_TOKEN")
	f.StringVar(&o.store, "store", "", "the policies published in the Redis at `URL`")
	f.Int64Var(&o.version, "version", 0, "the published `VERSION`; default the current one")
	f.StringVar(&o.html, "html", "", "write the report to `FILE` as a page")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.noPlot, "no-plot", false, "print no plot")
	f.IntVar(&o.top, "top", 10, "`NUMBER` of denied clients to print")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.runReplay(cmd.Context(), &o, args); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		return nil
	}
	return cmd
}

// sides returns the policies to compare, those in force first.
func (c *Config) sides(ctx context.Context, o *replayOptions) (sides []replay.Side, err error) {
	switch {
	case o.version < 0 || o.version > 0 && o.store == "":
		return nil, fmt.Errorf("--version: got %d, want a version of the policies in --store", o.version)
	case !o.running && o.admin+o.tokenFile != "":
		return nil, errors.New("--admin, --token-file: want --running with them")
	case o.policies+o.after+o.store == "" && !o.running:
		return nil, errors.New("--policies, --after, --running, --store: got none, want policies to replay")
	}
	add := func(name string, load func() (*weirfile.File, error)) {
		if err != nil {
			return
		}
		var f *weirfile.File
		if f, err = load(); err != nil {
			return
		}
		if name == "" {
			name = f.Name
		}
		sides = append(sides, replay.Side{Name: name, File: f})
	}
	if o.running {
		add("", func() (*weirfile.File, error) { return c.Running(ctx, o.admin, o.tokenFile) })
	}
	if o.store != "" {
		add("", func() (*weirfile.File, error) { return c.Published(ctx, o.store, o.version) })
	}
	for _, name := range []string{o.policies, o.after} {
		if name != "" {
			add(name, func() (*weirfile.File, error) { return c.Load(name) })
		}
	}
	return sides, err
}

func (c *Config) runReplay(ctx context.Context, o *replayOptions, paths []string) error {
	switch {
	case len(paths) == 0:
		return errNoLog
	case o.top < 0:
		return fmt.Errorf("--top: got %d, want 0 or more", o.top)
	}
	sides, err := c.sides(ctx, o)
	if err != nil {
		return err
	}
	good, err := o.goodClients()
	if err != nil {
		return err
	}
	skip, err := o.skips()
	if err != nil {
		return err
	}
	logs, done, err := c.open(paths, &o.logOptions)
	if err != nil {
		return err
	}
	defer done()
	var lines atomic.Int64
	p := c.progress(&lines)
	report, err := replay.Run(logs, sides, replay.Config{Good: good, Skip: skip, Lines: &lines})
	took := p.Done()
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := create(o.html, report.WriteHTML); err != nil {
			return err
		}
	}
	if o.json {
		return c.printJSON(report)
	}
	if err := report.WriteText(c.Stdout, o.top, !o.noPlot); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Stderr, "replayed %d lines in %v, %.0f lines/s\n", report.Log.Lines, took.Round(time.Millisecond), float64(report.Log.Lines)/took.Seconds())
	return err
}
