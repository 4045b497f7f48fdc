package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/webhook"
	"github.com/spf13/cobra"
)

func (w *environment) webhook() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook (add | list | rotate | enable | disable | remove)",
		Short: "Manage the endpoints that receive signed events",
		Long: "Manage the endpoints of merchants that receive events of orders and sales, as\n" +
			"Standard Webhooks. A running shop uses a change within a second.",
	}
	var keep time.Duration
	rotate := w.webhookCommand("rotate ENDPOINT", "Set a new secret and print it", func(ctx context.Context, s webhook.Store, args []string) error {
		if keep < 0 || keep > 30*24*time.Hour {
			return command.Usagef("--keep %v: want 0s to 720h", keep)
		}
		secret := signing.New().Text()
		if err := s.RotateSecret(ctx, "", args[0], secret, time.Now().Add(keep)); err != nil {
			return err
		}
		fmt.Fprintf(w.stdout, "secret: %s\nThe previous secret signs too for %v.\n", secret, keep)
		return nil
	})
	rotate.Flags().DurationVar(&keep, "keep", webhook.RotateFor, "how long the previous secret signs too")
	cmd.AddCommand(
		w.webhookCommand("add MERCHANT URL", "Add an endpoint and print its secret", func(ctx context.Context, s webhook.Store, args []string) error {
			e, err := s.AddEndpoint(ctx, args[0], args[1], signing.New().Text(), time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(w.stdout, "endpoint: %s\nsecret:   %s\n", e.ID, e.Secrets[0])
			return nil
		}),
		w.webhookCommand("list [MERCHANT]", "List endpoints, without their secrets", func(ctx context.Context, s webhook.Store, args []string) error {
			merchant := ""
			if len(args) > 0 {
				merchant = args[0]
			}
			all, err := s.Endpoints(ctx, merchant)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ENDPOINT\tMERCHANT\tDISABLED\tPENDING\tDEAD\tURL")
			for _, e := range all {
				fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\n", e.ID, e.Merchant, e.Disabled, e.Pending, e.Dead, e.URL)
			}
			return t.Flush()
		}),
		rotate,
		w.webhookCommand("enable ENDPOINT", "Enable an endpoint", func(ctx context.Context, s webhook.Store, args []string) error {
			return s.SetDisabled(ctx, "", args[0], "")
		}),
		w.webhookCommand("disable ENDPOINT", "Disable an endpoint; it misses the events of that time", func(ctx context.Context, s webhook.Store, args []string) error {
			return s.SetDisabled(ctx, "", args[0], webhook.ByMerchant)
		}),
		w.webhookCommand("remove ENDPOINT", "Remove an endpoint and its deliveries", func(ctx context.Context, s webhook.Store, args []string) error {
			return s.RemoveEndpoint(ctx, "", args[0])
		}),
	)
	return cmd
}

// webhookCommand returns a command that calls f with the store of the ledger that the flags name.
func (w *environment) webhookCommand(use, short string, f func(ctx context.Context, s webhook.Store, args []string) error) *cobra.Command {
	var c run.Config
	args := cobra.ExactArgs(1)
	switch use {
	case "add MERCHANT URL":
		args = cobra.ExactArgs(2)
	case "list [MERCHANT]":
		args = cobra.MaximumNArgs(1)
	}
	cmd := &cobra.Command{
		Use:   use + " (--data DIRECTORY | --database URL)",
		Short: short,
		Args:  command.Args(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckStores(cmd, &c); err != nil {
				return err
			}
			l, err := run.OpenLedger(cmd.Context(), c)
			if err != nil {
				return err
			}
			return errors.Join(f(cmd.Context(), l.Webhooks(), args), l.Close())
		},
	}
	command.LedgerFlags(cmd, w.getenv, &c)
	return cmd
}
