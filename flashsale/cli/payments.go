package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

func (w *environment) payments() *cobra.Command {
	root := &cobra.Command{Use: "payments", Short: "Manage payment providers: their keys, failed refunds and unmatched payments"}
	key := &cobra.Command{Use: "key", Short: "Add, print and rotate the keys that sign requests between the shop and a payment provider"}
	key.AddCommand(
		w.paymentsCommand("add NAME", "Add the first key of a provider and print it",
			"NAME is `default`, or the merchant whose provider it is.", true, func(ctx context.Context, k *run.PaymentKeyring, name, from string) error {
				keys, err := k.Keys(ctx, name)
				if err != nil {
					return err
				}
				if len(keys) > 0 {
					return fmt.Errorf("provider %s has a key: replace it with `flashsale payments key rotate %s`", name, name)
				}
				return w.addKey(ctx, k, name, from)
			}),
		w.paymentsCommand("print NAME", "Print the valid keys of a provider, the newest first", "", false, func(ctx context.Context, k *run.PaymentKeyring, name, _ string) error {
			keys, err := validKeys(ctx, k, name)
			for _, text := range keys {
				fmt.Fprintln(w.stdout, text)
			}
			return err
		}),
		w.paymentsCommand("rotate NAME", "Add a new key of a provider and print it",
			"The key before stays valid until the next rotation. A running shop uses the new one within\n5 seconds.", true, func(ctx context.Context, k *run.PaymentKeyring, name, from string) error {
				if _, err := validKeys(ctx, k, name); err != nil {
					return err
				}
				return w.addKey(ctx, k, name, from)
			}),
	)
	root.AddCommand(key, w.paymentsCommand("retry PAYMENT", "Try a failed refund again, or `all`", "", false, func(ctx context.Context, k *run.PaymentKeyring, payment, _ string) error {
		if payment == "all" {
			payment = ""
		}
		n, err := k.RetryRefunds(ctx, payment)
		if err == nil {
			fmt.Fprintf(w.stdout, "%d refunds are tried again\n", n)
		}
		return err
	}), w.paymentsCommand("unmatched", "List money that providers reported for no known order, the latest first",
		"The flash sale has not opened these payments, and does not have their orders. Refund them at\nthe provider. They are applied if their orders are written later.", false, w.unmatched))
	for _, c := range []*cobra.Command{root, key} {
		c.Args = command.Args(cobra.NoArgs)
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	return root
}

// validKeys returns the valid keys of a provider, which has one.
func validKeys(ctx context.Context, k *run.PaymentKeyring, name string) ([]string, error) {
	keys, err := k.Keys(ctx, name)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("provider %s has no key: make one with `flashsale payments key add %s`", name, name)
	}
	return keys, err
}

// unmatched lists unmatched payments.
func (w *environment) unmatched(ctx context.Context, k *run.PaymentKeyring, _, _ string) error {
	all, err := k.Unmatched(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	table := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RECEIVED\tPROVIDER\tREF\tKIND\tORDER\tAMOUNT\tCURRENCY")
	for _, u := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", u.ReceivedAt.Format(time.RFC3339), u.Provider, u.Ref, u.Kind, u.Receipt, u.Amount, u.Currency)
	}
	return table.Flush()
}

// addKey adds a key, from a file if from is not empty.
func (w *environment) addKey(ctx context.Context, k *run.PaymentKeyring, name, from string) error {
	text := ""
	if from != "" {
		in := w.stdin
		if from != "-" {
			f, err := os.Open(from)
			if err != nil {
				return fmt.Errorf("from: %w", err)
			}
			defer f.Close()
			in = f
		}
		line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("from: %w", err)
		}
		if text = strings.TrimSpace(line); text == "" {
			return fmt.Errorf("from %s: it is empty, want a key", from)
		}
	}
	text, err := k.Add(ctx, name, text)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.stdout, text)
	return nil
}

// paymentsCommand returns a command that opens the keyring. It has one argument if use names one.
func (w *environment) paymentsCommand(use, short, long string, from bool, do func(ctx context.Context, k *run.PaymentKeyring, name, from string) error) *cobra.Command {
	var c run.Config
	var file string
	if long != "" {
		long = short + ".\n\n" + long
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: command.Args(cobra.ExactArgs(strings.Count(use, " "))),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckStores(cmd, &c); err != nil {
				return err
			}
			k, err := run.OpenPaymentKeyring(cmd.Context(), c)
			if err != nil {
				return err
			}
			return errors.Join(do(cmd.Context(), k, strings.Join(args, ""), file), k.Close())
		},
	}
	command.LedgerFlags(cmd, w.getenv, &c)
	f := cmd.Flags()
	f.StringVar(&c.Secret, "secret", "", "the `FILE` with the secret of the shop, which encrypts the keys (with --data: DIRECTORY/secret)")
	f.StringVar(&c.OldSecret, "old-secret", "", "the `FILE` with the previous secret")
	if from {
		f.StringVar(&file, "from", "", "read the key from a `FILE`, - for the standard input (random by default)")
	}
	return cmd
}
