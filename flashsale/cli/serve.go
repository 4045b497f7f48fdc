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
			"With --data one process keeps everything in a file. With --database and --redis any\n" +
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
	f.StringVar(&c.Secret, "secret", "", "the `FILE` with the secret, at least 32 bytes (with --data: DIRECTORY/secret, made if missing)")
	f.StringVar(&c.OldSecret, "old-secret", "", "the `FILE` with the secret before, whose signatures still count")
	f.StringVar(&c.Shop, "shop", run.DefaultShop, "where buyers are listened to, `HOST:PORT`")
	f.StringVar(&c.Office, "office", run.DefaultOffice, "where merchants are listened to, `HOST:PORT`; beyond loopback FLASHSALE_METRICS_TOKEN has to be set")
	f.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil, "`ADDRESSES` or prefixes of proxies in front, whose word about the client's address counts")
	f.StringVar(&c.Layers, "layers", "", "the policy `FILE` of the limits per address and user, read again when it changes (embedded if not said)")
	f.BoolVar(&c.Front, "front", false, "these limits are kept in front of the shop, and not here")
	f.IntVar(&c.Workers, "workers", 2, "how many goroutines write orders")
	f.StringVar(&c.Name, "name", "", "the `NAME` of this process among those of the sale: 1 to 56 letters, digits, . _ - (made up if not said)")
	f.DurationVar(&c.Drain, "drain", run.DefaultDrain, "how long a stop waits for requests")
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
