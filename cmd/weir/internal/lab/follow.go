package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/atomicfile"
	"github.com/floodweir/weir/cmd/weir/internal/suggest"
)

// followOptions are the flags of the continuous mode of `weir suggest`.
type followOptions struct {
	on            bool
	every, window time.Duration
	change        float64
	output        string
	current       string
}

func (o *followOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&o.on, "follow", "f", false, "follow a growing log and propose changed limits, until SIGINT, SIGTERM or the end of standard input")
	f.DurationVar(&o.every, "every", 10*time.Minute, "with --follow: `DURATION` between proposals, by the times in the log")
	f.DurationVar(&o.window, "window", 24*time.Hour, "with --follow: `DURATION` of recent traffic: at least half of it counts")
	f.Float64Var(&o.change, "change", 20, "with --follow: propose only limits that differ by more than `PERCENT`")
	f.StringVarP(&o.output, "output", "o", "", "with --follow: write each proposal to `FILE`, as policies")
	f.StringVarP(&o.current, "policies", "p", "", "with --follow: the policy `FILE` in force, with which the first proposal is compared")
}

// check reports wrong usage.
func (o *followOptions) check(c *cobra.Command, logs []string, asJSON bool) error {
	if !o.on {
		for _, name := range []string{"every", "window", "change", "output", "policies"} {
			if c.Flags().Changed(name) {
				return fmt.Errorf("--%s: want --follow with it", name)
			}
		}
		return nil
	}
	switch {
	case len(logs) != 1:
		return fmt.Errorf("--follow: got %d logs, want 1", len(logs))
	case o.every < time.Second:
		return fmt.Errorf("--every: got %v, want 1s or more", o.every)
	case o.window < 2*o.every || o.window > 31*24*time.Hour:
		return fmt.Errorf("--window: got %v, want %v (twice --every) to 744h", o.window, 2*o.every)
	case !(o.change >= 0 && o.change <= 1000):
		return fmt.Errorf("--change: got %v, want a percentage of 0 to 1000", o.change)
	case o.output == "" && !asJSON:
		return errors.New("--follow: want --output FILE or --json with it")
	}
	return nil
}

// A proposal is one line of JSON.
type proposal struct {
	At      time.Time        `json:"at"` // of the last request
	Changes []suggest.Change `json:"changes"`
	*suggest.Suggestion
}

// A follower proposes limits from recent traffic. It applies nothing.
type follower struct {
	*Config
	o         *followOptions
	bounds    suggest.Config
	json      bool
	recent    suggest.Recent
	before    suggest.Limits
	last, due int64 // times in the log, in µs
	proposals int
	warned    bool
}

// follow reads a log to its end, or until ctx is done.
func (c *Config) follow(ctx context.Context, path string, o *suggestOptions, bounds suggest.Config) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := &follower{Config: c, o: &o.follow, bounds: bounds, json: o.json, recent: suggest.Recent{Window: o.follow.window}}
	if o.follow.current != "" {
		file, err := c.Load(o.follow.current)
		if err != nil {
			return err
		}
		f.before, f.bounds.Names = suggest.LimitsOf(file.Policies), suggest.NamesOf(file.Policies)
	}
	skip, err := o.skips()
	if err != nil {
		return err
	}
	in, name := io.Reader(nil), "stdin"
	if path == "-" {
		in = until(ctx, c.Stdin)
	} else {
		t, err := openTail(ctx, path)
		if err != nil {
			return err
		}
		defer t.close()
		in, name = t, path
	}
	format := o.format
	format.Growing = true
	log, err := accesslog.NewReader(name, in, format)
	if err != nil {
		return err
	}
	spaced := accesslog.Spacer{Emit: func(e *accesslog.Entry, at int64) {
		if err == nil {
			err = f.add(e, at)
		}
	}}
	var order accesslog.Sorter
	var e accesslog.Entry
	for err == nil && log.Next(&e) {
		if !skip(&e) {
			order.Add(&e, spaced.Add)
		}
	}
	order.Flush(spaced.Add)
	spaced.Flush()
	if err = errors.Join(err, log.Err()); err == nil && f.last > 0 {
		err = f.propose()
	}
	fmt.Fprintf(c.Stderr, "followed %d lines, of which %d do not have the format and %d came more than a minute late: %d proposals\n",
		log.Stats.Lines, log.Stats.Rejected, order.Late, f.proposals)
	return err
}

// add records a request, after the proposal that is due before it.
func (f *follower) add(e *accesslog.Entry, at int64) error {
	if f.due == 0 {
		f.due = at + f.o.every.Microseconds()
	}
	if at >= f.due {
		if err := f.propose(); err != nil {
			return err
		}
		f.due = at - (at-f.due)%f.o.every.Microseconds() + f.o.every.Microseconds()
	}
	f.recent.Add(e, at)
	f.last = at
	return nil
}

// warn reports, once, the policies of --min and --max that the first proposal does not have.
func (f *follower) warn(proposed suggest.Limits) {
	if f.warned {
		return
	}
	f.warned = true
	unused := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(f.bounds.Min)), slices.Collect(maps.Keys(f.bounds.Max))) {
		if _, ok := proposed[suggest.Place{Policy: name}]; name != "" && !ok {
			unused[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		fmt.Fprintf(f.Stderr, "weir: warning: suggest: --min, --max: no policy %q is proposed yet; the names are in the proposal\n", name)
	}
}

// propose writes a proposal, if it differs enough from the previous one.
func (f *follower) propose() error {
	s, err := f.recent.Suggest(f.bounds)
	switch {
	case errors.Is(err, suggest.ErrTooLittle):
		return nil // so far
	case err != nil:
		return err
	}
	after, err := s.Limits()
	if err != nil {
		return err
	}
	f.warn(after)
	p := proposal{At: time.UnixMicro(f.last).UTC(), Changes: suggest.Changes(f.before, after, f.o.change/100), Suggestion: s}
	if len(p.Changes) == 0 {
		return nil
	}
	if f.o.output != "" {
		var policies bytes.Buffer
		if err := s.WritePolicies(&policies); err != nil {
			return err
		}
		if err := atomicfile.Write(f.o.output, policies.Bytes(), 0o644); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	f.before = after
	f.proposals++
	if f.json {
		return json.NewEncoder(f.Stdout).Encode(p)
	}
	for _, change := range p.Changes {
		if _, err := fmt.Fprintf(f.Stdout, "%s %s\n", p.At.Format(time.RFC3339), change.String()); err != nil {
			return err
		}
	}
	return nil
}

// parseBounds reads --min or --max: LIMIT, or POLICY=LIMIT.
func parseBounds(flag string, texts []string) (suggest.Bound, error) {
	all := suggest.Bound{}
	for _, text := range texts {
		policy, limit, named := strings.Cut(text, "=")
		if !named {
			policy, limit = "", text
		}
		l, err := weir.ParseLimit(limit)
		if _, twice := all[policy]; err != nil || twice || l.Period() == 0 || l.IsConcurrency() {
			return nil, fmt.Errorf("--%s: got %q, want a limit such as '5/m burst 10' once for each policy, or POLICY=LIMIT", flag, text)
		}
		all[policy] = l
	}
	return all, nil
}
