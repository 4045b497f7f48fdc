package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/lab"
	"github.com/spf13/cobra"
)

func labCommand(stdout io.Writer) *cobra.Command {
	var c lab.Config
	var url string
	var runs int
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Sell units with and without a lock, and count what is oversold",
		Args:  command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 || runs > 100 {
				return command.Usagef("--runs %d: want 1 to 100", runs)
			}
			if url != "" {
				client, err := run.DialRedis(url)
				if err != nil {
					return err
				}
				defer client.Close()
				c.Redis = client
			}
			table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "design\truns\toversold in\tunits oversold\tundersold\tbuyers/s\t")
			for _, d := range lab.Designs() {
				var in, over, under int
				var rate float64
				for range runs {
					c.Design = d
					r, err := lab.Run(cmd.Context(), c)
					if err != nil {
						return err
					}
					if r.Oversold > 0 {
						in++
					}
					over, under, rate = over+r.Oversold, under+r.Undersold, rate+r.PerSecond/float64(runs)
				}
				fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.0f\t\n", d, runs, in, over, under, rate)
			}
			return table.Flush()
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Buyers, "buyers", 100, "the number of concurrent buyers")
	f.IntVar(&c.Stock, "stock", 20, "the number of units")
	f.DurationVar(&c.Pause, "pause", 200*time.Millisecond, "how long some buyers pause while they hold the lock, which expires after 50ms")
	f.IntVar(&runs, "runs", 5, "the number of runs of each design")
	f.StringVar(&url, "redis", "", "the `URL` of the Redis with lock and stock (default: a store in this process)")
	return cmd
}
