package lab

import (
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/suggest"
)

func (c Config) suggest() *cobra.Command {
	var o logOptions
	var json bool
	cmd := &cobra.Command{
		Use:   "suggest LOG...",
		Short: "Suggest limits from the use in a log",
		Long: "Print a policy file with limits for each client, on the whole site and on routes to which clients\n" +
			"write. A limit is twice what 95 % of the active clients use. Clients above it that do harm are listed as\n" +
			"abusers: over half of their responses are 401, 403, 404 or 429, or they read 500 paths or more with even\n" +
			"gaps, or they flood. Other clients above it get an override. Comments show what other percentiles affect.\n\n" +
			"It never applies anything. Review the file, and try it with `weir replay LOG --policies FILE`.\n\n" + logHelp +
			"Exit codes: 0 done, 2 wrong usage, unreadable log or not enough traffic.",
		Example: "  weir suggest access.log > suggested.yaml\n  weir suggest access.log.*.gz --good partners.txt --skip /healthz",
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&json, "json", false, "print JSON instead of a policy file")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		s, err := c.runSuggest(&o, args)
		switch {
		case err != nil:
			return fmt.Errorf("suggest: %w", err)
		case json:
			return c.printJSON(s)
		}
		return s.WritePolicies(c.Stdout)
	}
	return cmd
}

func (c *Config) runSuggest(o *logOptions, paths []string) (*suggest.Suggestion, error) {
	if len(paths) == 0 {
		return nil, errNoLog
	}
	good, err := o.goodClients()
	if err != nil {
		return nil, err
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
	defer c.progress(&lines)()
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
	if rejected+order.Late > 0 {
		fmt.Fprintf(c.Stderr, "note: of %d lines, %d do not have the format and %d came more than a minute late\n", read, rejected, order.Late)
	}
	return a.Suggest(suggest.Config{Good: good})
}
