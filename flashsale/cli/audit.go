package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	weirrueidis "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/flashsale/auditor"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/rueidis"
	"github.com/spf13/cobra"
)

func (w *world) audit() *cobra.Command {
	var c run.Config
	var a auditor.Config
	var facts auditor.Facts
	var observations string
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "audit (--data DIRECTORY | --database URL [--redis URL])",
		Short: "Judge what a sale has done, with queries of its own",
		Long: "Judge what a sale has done, with queries of its own, beside the processes that sell or\n" +
			"after them. It ends with an error if anything does not hold.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			a.Database = c.Database
			switch {
			case c.Data != "":
				a.Database = filepath.Join(c.Data, "flashsale.db")
			case c.Database == "":
				return misuse{errors.New("want --data or --database")}
			}
			if c.Redis != "" {
				addr, err := redisstore.ParseURL(c.Redis)
				if err != nil {
					return misuse{fmt.Errorf("--redis: %w", err)}
				}
				if a.Redis, err = rueidis.NewClient(weirrueidis.Options(addr)); err != nil {
					return fmt.Errorf("redis: %w", err)
				}
				defer a.Redis.Close()
			}
			if observations != "" {
				f, err := os.Open(observations)
				if err != nil {
					return err
				}
				defer f.Close()
				if facts.Observations, err = auditor.Read(f); err != nil {
					return err
				}
			}
			one, err := auditor.Open(ctx, a)
			if err != nil {
				return err
			}
			defer one.Close()
			if watch > 0 {
				watchFor(ctx, one, watch)
			}
			report, err := one.Final(ctx, facts)
			if err != nil {
				return err
			}
			if _, err := report.WriteTo(w.stdout); err != nil {
				return err
			}
			if n := report.Violations(); n > 0 {
				return fmt.Errorf("%d violations", n)
			}
			return nil
		},
	}
	w.stores(cmd, &c)
	f := cmd.Flags()
	f.StringSliceVar(&a.Sales, "sale", nil, "the `IDs` of the sales (all that were ever exposed if not said)")
	f.StringVar(&observations, "observations", "", "the `FILE` with what buyers saw")
	f.DurationVar(&watch, "watch", 0, "look at every moment for so long before judging")
	f.BoolVar(&facts.Complete, "complete", false, "the observations are all that buyers did")
	f.BoolVar(&facts.Settled, "settled", false, "nobody buys any more, and the times to pay are over")
	return cmd
}

// watchFor samples for so long.
func watchFor(ctx context.Context, one *auditor.Auditor, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	one.Watch(ctx)
}
