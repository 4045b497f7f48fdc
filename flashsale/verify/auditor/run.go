package auditor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	weirrueidis "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/rueidis"
)

var (
	// ErrViolated is wrapped by Run if an invariant is violated.
	ErrViolated = errors.New("auditor: invariant violated")

	// ErrNothing is wrapped if a sale to audit, or every sale, was never exposed.
	ErrNothing = errors.New("auditor: nothing to audit")

	// ErrIncomplete is wrapped by Run if a store could not be read.
	ErrIncomplete = errors.New("auditor: not everything could be checked")
)

// Options holds the parameters of Run.
type Options struct {
	Database     string // see Config
	Redis        string // redis://, rediss://, redis+sentinel:// or redis+cluster://; empty for none
	Prefix       string // see Config
	Sales        []string
	Observations []string      // files of observations
	Watch        time.Duration // how long to sample before the final checks; negative: until ctx is done
	Slack        time.Duration // see Config
	Complete     bool          // see Facts
	Settled      bool          // see Facts
	Failed       bool          // see Facts
	Workers      int           // see Facts
}

// Run audits and writes the report to out. Its error wraps ErrViolated, ErrIncomplete or
// ErrNothing; in the last case Run writes nothing. The end of ctx ends the sampling, not the
// final checks.
func Run(ctx context.Context, o Options, out io.Writer) error {
	c := Config{Database: o.Database, Prefix: o.Prefix, Sales: o.Sales, Slack: o.Slack}
	if o.Redis != "" {
		address, err := redisstore.ParseURL(o.Redis)
		if err != nil {
			return fmt.Errorf("auditor: redis: %w", err)
		}
		client, err := rueidis.NewClient(weirrueidis.Options(address))
		if err != nil {
			return fmt.Errorf("auditor: redis: %w", err)
		}
		defer client.Close()
		c.Redis = client
	}
	a, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer a.Close()
	if o.Watch != 0 {
		if err := a.requireSales(ctx, true); err != nil {
			return err
		}
		sampling, stop := ctx, context.CancelFunc(func() {})
		if o.Watch > 0 {
			sampling, stop = context.WithTimeout(ctx, o.Watch)
		}
		a.Watch(sampling)
		stop()
	}
	ctx = context.WithoutCancel(ctx)
	// Observations are read last, because clients may write them until now.
	facts := Facts{Complete: o.Complete, Settled: o.Settled, Failed: o.Failed, Workers: o.Workers}
	for _, name := range o.Observations {
		seen, err := readFile(name)
		if err != nil {
			return err
		}
		facts.Observations = append(facts.Observations, seen...)
	}
	report, err := a.Final(ctx, facts)
	if errors.Is(err, ErrNothing) {
		return err
	}
	if _, werr := report.WriteTo(out); err == nil {
		err = werr
	}
	switch {
	case err != nil:
		return err
	case report.Violations() > 0:
		return fmt.Errorf("%w: %d violations in %d checks", ErrViolated, report.Violations(), report.Checks())
	case len(report.Errors) > 0:
		return fmt.Errorf("%w: %s", ErrIncomplete, report.Errors[0])
	}
	return nil
}

func readFile(name string) ([]calllog.Call, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("auditor: observations: %w", err)
	}
	defer f.Close()
	seen, err := calllog.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return seen, nil
}
