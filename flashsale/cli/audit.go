package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/spf13/cobra"
)

func (w *world) audit() *cobra.Command {
	var c run.Config
	var o auditor.Options
	cmd := &cobra.Command{
		Use:   "audit (--data DIRECTORY | --database URL [--redis URL])",
		Short: "Judge what a sale has done, with queries of its own",
		Long: "Judge what a sale has done, with queries of its own, beside the processes that sell or\n" +
			"after them. It ends with an error if anything does not hold, or cannot be looked at, or\n" +
			"if there is no sale to look at.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := stored(cmd, &c); err != nil {
				return err
			}
			if c.Database == "" && c.Data == "" {
				return misuse{errors.New("--database: want a URL that begins with postgres://: a Redis alone keeps no orders")}
			}
			if o.Slack < 0 {
				return misuse{fmt.Errorf("--slack %v: want none below 0", o.Slack)}
			}
			if cmd.Flags().Changed("sale") && len(o.Sales) == 0 {
				return misuse{errors.New(`--sale "": want the IDs of sales`)}
			}
			if o.Workers < 0 {
				return misuse{fmt.Errorf("--workers %d: want none below 0", o.Workers)}
			}
			o.Database, o.Redis = c.Database, c.Redis
			if c.Data != "" {
				o.Database = filepath.Join(c.Data, "flashsale.db")
			}
			return auditor.Run(cmd.Context(), o, w.stdout)
		},
	}
	w.storeFlags(cmd, &c)
	f := cmd.Flags()
	f.StringSliceVar(&o.Sales, "sale", nil, "the `IDs` of the sales (all that were ever exposed if not said)")
	f.StringSliceVar(&o.Observations, "observations", nil, "the `FILES` with what buyers saw")
	f.DurationVar(&o.Watch, "watch", 0, "look at every moment for so long before judging; negative: until it is interrupted")
	f.DurationVar(&o.Slack, "slack", 30*time.Second, "how late a ticket or an order may end")
	f.BoolVar(&o.Complete, "complete", false, "the observations are all that buyers did")
	f.BoolVar(&o.Settled, "settled", false, "nobody buys any more, and the times to pay are over")
	f.BoolVar(&o.Failed, "failed", false, "a gate has lost what it had acknowledged: lost reservations are counted, and no fault")
	f.IntVar(&o.Workers, "workers", 0, "how many order writers there may be (not judged if not said)")
	return cmd
}
