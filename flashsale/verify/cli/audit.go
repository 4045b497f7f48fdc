package cli

import (
	"io"
	"path/filepath"
	"time"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/spf13/cobra"
)

func audit(stdout io.Writer, getenv func(string) string) *cobra.Command {
	var c run.Config
	var o auditor.Options
	cmd := &cobra.Command{
		Use:   "audit (--data DIRECTORY | --database URL [--redis URL])",
		Short: "Check the invariants of a sale against its stores",
		Long: "Check the invariants of a sale with queries of its own, while the shop runs or later.\n" +
			"It exits with an error if an invariant is violated or cannot be checked, or if the\n" +
			"database has no sale to audit.",
		Args: command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckStores(cmd, &c); err != nil {
				return err
			}
			switch {
			case c.Database == "" && c.Data == "":
				return command.Usagef("--database: want a URL that begins with postgres://: Redis alone has no orders")
			case o.Slack < 0:
				return command.Usagef("--slack %v: want 0 or more", o.Slack)
			case cmd.Flags().Changed("sale") && len(o.Sales) == 0:
				return command.Usagef(`--sale "": want the IDs of sales`)
			case o.Workers < 0:
				return command.Usagef("--workers %d: want 0 or more", o.Workers)
			}
			o.Database, o.Redis = c.Database, c.Redis
			if c.Data != "" {
				o.Database = filepath.Join(c.Data, "flashsale.db")
			}
			return auditor.Run(cmd.Context(), o, stdout)
		},
	}
	command.StoreFlags(cmd, getenv, &c)
	f := cmd.Flags()
	f.StringSliceVar(&o.Sales, "sale", nil, "the `IDs` of the sales (default: all that were exposed)")
	f.StringSliceVar(&o.Observations, "observations", nil, "the `FILES` of observations that clients recorded")
	f.DurationVar(&o.Watch, "watch", 0, "watch the sale for this long before the final checks; negative: until interrupted")
	f.DurationVar(&o.Slack, "slack", 30*time.Second, "how late a ticket or an order may expire")
	f.BoolVar(&o.Complete, "complete", false, "the observations contain every request of every buyer")
	f.BoolVar(&o.Settled, "settled", false, "all buyers have stopped, and every payment deadline has passed")
	f.BoolVar(&o.Failed, "failed", false, "the inventory lost acknowledged writes: count lost reservations, do not report them as violations")
	f.IntVar(&o.Workers, "workers", 0, "the maximum number of order writers (default: not checked)")
	return cmd
}
