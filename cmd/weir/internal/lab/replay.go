package lab

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/replay"
)

// replayOptions are the flags of `weir replay`.
type replayOptions struct {
	logOptions
	policies, after string
	html            string
	json, noPlot    bool
	top             int
}

func (c Config) replay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay LOG... --policies FILE [--after FILE]",
		Short: "Replay a log: which requests would policies deny",
		Long: "Replay the requests of logs through a policy file in virtual time, and report who would have been denied,\n" +
			"how often and when. Candidates and policies in shadow mode are counted apart. With --after, a second\n" +
			"file is compared with the first.\n\n" + logHelp +
			"Exit codes: 0 done, 2 wrong usage, unreadable log or invalid file.",
		Example: "  weir replay access.log --policies weir.yaml\n" +
			"  weir replay access.log.1.gz access.log --policies weir.yaml --after next.yaml --html report.html\n" +
			"  zcat *.gz | weir replay - --policies weir.yaml --skip /healthz --skip '/static/*' --good partners.txt",
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.policies, "policies", "p", "", "the policy `FILE`; required")
	f.StringVar(&o.after, "after", "", "a policy `FILE` to compare")
	f.StringVar(&o.html, "html", "", "write the report to `FILE` as a page")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.noPlot, "no-plot", false, "print no plot")
	f.IntVar(&o.top, "top", 10, "`NUMBER` of denied clients to print")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := c.runReplay(&o, args); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		return nil
	}
	return cmd
}

func (c *Config) runReplay(o *replayOptions, paths []string) error {
	switch {
	case len(paths) == 0:
		return errNoLog
	case o.policies == "":
		return errors.New("--policies: got none, want a policy file")
	case o.top < 0:
		return fmt.Errorf("--top: got %d, want 0 or more", o.top)
	}
	var sides []replay.Side
	for _, name := range []string{o.policies, o.after} {
		if name == "" {
			continue
		}
		file, err := c.Load(name)
		if err != nil {
			return err
		}
		sides = append(sides, replay.Side{Name: name, File: file})
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
	begin, stop := time.Now(), c.progress(&lines)
	report, err := replay.Run(logs, sides, replay.Config{Good: good, Skip: skip, Lines: &lines})
	stop()
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
	took := time.Since(begin)
	_, err = fmt.Fprintf(c.Stderr, "replayed %d lines in %v, %.0f lines/s\n", report.Log.Lines, took.Round(time.Millisecond), float64(report.Log.Lines)/took.Seconds())
	return err
}
