package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

func (w *environment) serve() *cobra.Command {
	c := run.Config{MetricsToken: w.getenv("FLASHSALE_METRICS_TOKEN")}
	cmd := &cobra.Command{
		Use:   "serve (--data DIRECTORY | --database URL --redis URL --secret FILE)",
		Short: "Serve the shop and the office",
		Long: "Serve the shop, for buyers, and the office, for merchants.\n\n" +
			"With --data one process stores everything in a file. With --database and --redis any\n" +
			"number of processes serve the same sales; they share a secret.",
		Args: command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(command.CheckStores(cmd, &c), command.Positive(cmd, "workers", "drain")); err != nil {
				return err
			}
			c.Log = w.logger()
			s, err := run.Start(cmd.Context(), c)
			if err != nil {
				return err
			}
			fmt.Fprintf(w.stdout, "shop:   %s\noffice: %s\n", s.ShopURL, s.OfficeURL)
			return wait(cmd.Context(), s)
		},
	}
	command.StoreFlags(cmd, w.getenv, &c)
	f := cmd.Flags()
	f.StringVar(&c.Secret, "secret", "", "the `FILE` with the secret, at least 32 bytes (with --data: DIRECTORY/secret, created if missing)")
	f.StringVar(&c.OldSecret, "old-secret", "", "the `FILE` with the previous secret, whose signatures are still accepted")
	f.StringVar(&c.Shop, "shop", run.DefaultShop, "the address for buyers, `HOST:PORT`")
	f.StringVar(&c.Office, "office", run.DefaultOffice, "the address for merchants, `HOST:PORT`; other than loopback requires FLASHSALE_METRICS_TOKEN")
	f.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil, "`ADDRESSES` or prefixes of proxies in front, whose X-Forwarded-For is trusted")
	f.StringVar(&c.Layers, "layers", "", "the policy `FILE` of the limits per address and user, reloaded when it changes (built in by default)")
	f.BoolVar(&c.Front, "front", false, "disable these limits, because a proxy in front applies them")
	f.IntVar(&c.Workers, "workers", 2, "the number of order writers")
	f.StringVar(&c.Name, "name", "", "the `NAME` of this process among those of the sale: 1 to 56 letters, digits, . _ - (random by default)")
	f.DurationVar(&c.Drain, "drain", run.DefaultDrain, "how long a stop waits for requests in progress")
	return cmd
}

// wait waits until ctx is done or s fails, and stops s.
func wait(ctx context.Context, s *run.System) error {
	select {
	case <-ctx.Done():
		return s.Stop()
	case err := <-s.Failed():
		s.Stop()
		return err
	}
}
