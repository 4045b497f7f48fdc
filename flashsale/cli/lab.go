package cli

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/lab"
	"github.com/spf13/cobra"
)

func (w *world) lab() *cobra.Command {
	var c lab.Config
	var url string
	var runs int
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Sell the same units with a lock and without one, and see what is oversold",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 || runs > 100 {
				return misuse{fmt.Errorf("--runs %d: want 1 to 100", runs)}
			}
			one, end, err := run.Lab(url)
			if err != nil {
				return err
			}
			defer end()
			table := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "design\truns\toversold in\tunits oversold\tundersold\tbuyers/s\t")
			for _, d := range lab.Designs() {
				var in, over, under int
				var rate float64
				for range runs {
					c.Design = d
					r, err := one(cmd.Context(), c)
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
	f.IntVar(&c.Buyers, "buyers", 100, "how many buyers come at once")
	f.IntVar(&c.Stock, "stock", 20, "how many units there are")
	f.DurationVar(&c.Pause, "pause", 200*time.Millisecond, "for how long some buyers stop while they hold the lock, which is theirs for 50ms")
	f.IntVar(&runs, "runs", 5, "how many runs of each design")
	f.StringVar(&url, "redis", "", "the `URL` of the Redis that has lock and stock (a store in this process if not said)")
	return cmd
}
