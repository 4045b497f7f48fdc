package lab

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/suggest"
)

// suggestOptions are the flags of `weir suggest`.
type suggestOptions struct {
	logOptions
	min, max []string
	json     bool
	follow   followOptions
}

func (c Config) suggest() *cobra.Command {
	var o suggestOptions
	cmd := &cobra.Command{
		Use:   "suggest LOG...",
		Short: "Suggest limits from the use in a log",
		Long: "Print a policy file with limits for each client, on the whole site and on routes to which clients\n" +
			"write. A limit is twice what 95 % of the active clients use. Clients above it that do harm are listed as\n" +
			"abusers: over half of their responses are 401, 403, 404 or 429, or they read 500 paths or more with even\n" +
			"gaps, or they flood, or are denied ten times inside one Retry-After. Other clients above it get an override.\n" +
			"Logs of two hours or two days add quotas. Comments show what other percentiles affect.\n\n" +
			"It never applies anything. Review the file, and try it with `weir replay LOG --policies FILE`. With\n" +
			"--follow, it prints what changes, and writes policies to --output.\n\n" + logHelp +
			"Exit codes: 0 done, 1 not enough traffic, or an invalid file for --policies, 2 wrong usage or unreadable log.",
		Example: "  weir suggest access.log > suggested.yaml\n  weir suggest access.log.*.gz --good partners.txt --skip /healthz\n" +
			"  weir suggest /var/log/nginx/access.log --follow --policies weir.yaml --output next.yaml --max '50/s burst 200'",
	}
	o.flags(cmd)
	o.follow.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.min, "min", nil, "propose no lower rate, burst or quota than `LIMIT`, or POLICY=LIMIT; may be repeated")
	f.StringArrayVar(&o.max, "max", nil, "propose no higher rate or burst than `LIMIT`, or POLICY=LIMIT; may be repeated")
	f.BoolVar(&o.json, "json", false, "print JSON instead of a policy file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := o.follow.check(cmd, args, o.json)
		if err == nil {
			err = c.runSuggest(cmd.Context(), &o, args)
		}
		if err != nil {
			return fmt.Errorf("suggest: %w", err)
		}
		return nil
	}
	return cmd
}

// runSuggest prints a suggestion, or follows a log.
func (c *Config) runSuggest(ctx context.Context, o *suggestOptions, paths []string) (err error) {
	var bounds suggest.Config
	if bounds.Good, err = o.goodClients(); err != nil {
		return err
	}
	if bounds.Min, err = parseBounds("min", o.min); err != nil {
		return err
	}
	if bounds.Max, err = parseBounds("max", o.max); err != nil {
		return err
	}
	if o.follow.on {
		return c.follow(ctx, paths[0], o, bounds)
	}
	a, err := c.analyze(&o.logOptions, paths)
	if err != nil {
		return err
	}
	s, err := a.Suggest(bounds)
	switch {
	case err != nil:
		return err
	case o.json:
		return c.printJSON(s)
	}
	return s.WritePolicies(c.Stdout)
}

// analyze reads logs.

func (c *Config) analyze(o *logOptions, paths []string) (*suggest.Analysis, error) {
	if len(paths) == 0 {
		return nil, errNoLog
	}
	skip, err := o.skips()
	if err != nil {
		return nil, err
	}
	logs, done, err := c.open(paths, o)
	if err != nil {
		return nil, err
	}
	defer done()
	var lines atomic.Int64
	p := c.progress(&lines)
	defer func() { p.Summarize(c.Stderr, "read %d lines", lines.Load()) }()
	a := suggest.New()
	spaced := accesslog.Spacer{Emit: a.Add}
	var order accesslog.Sorter
	rejected, read := 0, 0
	for _, log := range logs {
		var e accesslog.Entry
		for log.Next(&e) {
			lines.Add(1)
			if !skip(&e) {
				order.Add(&e, spaced.Add)
			}
		}
		if err := log.Err(); err != nil {
			return nil, err
		}
		rejected, read = rejected+log.Stats.Rejected, read+log.Stats.Lines
	}
	order.Flush(spaced.Add)
	spaced.Flush()
	p.Done()
	if rejected+order.Late > 0 {
		fmt.Fprintf(c.Stderr, "note: of %d lines, %d do not have the format and %d came more than a minute late\n", read, rejected, order.Late)
	}
	return a, nil
}
