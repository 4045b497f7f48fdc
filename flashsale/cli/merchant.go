package cli

import (
	"fmt"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

func (w *environment) merchant() *cobra.Command {
	var c run.Config
	cmd := &cobra.Command{
		Use:   "merchant NAME (--data DIRECTORY | --database URL)",
		Short: "Add a merchant, or replace its password",
		Long: "Add a merchant with an account of its name as the owner, or replace the password of\n" +
			"that account. The password is the first line of the standard input:\n\n" +
			"  openssl rand -base64 18 | tee password | flashsale merchant alice --data data",
		Args: command.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckStores(cmd, &c); err != nil {
				return err
			}
			password, err := w.password()
			if err != nil {
				return err
			}
			if err := run.AddMerchant(cmd.Context(), c, args[0], password); err != nil {
				return err
			}
			fmt.Fprintf(w.stdout, "merchant %s can log in\n", args[0])
			return nil
		},
	}
	command.LedgerFlags(cmd, w.getenv, &c)
	return cmd
}

func (w *environment) migrate() *cobra.Command {
	var c run.Config
	cmd := &cobra.Command{
		Use:   "migrate (--data DIRECTORY | --database URL)",
		Short: "Migrate the schema of the ledger, as serve does",
		Args:  command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckStores(cmd, &c); err != nil {
				return err
			}
			l, err := run.OpenLedger(cmd.Context(), c)
			if err != nil {
				return err
			}
			if err := l.Close(); err != nil {
				return err
			}
			fmt.Fprintln(w.stdout, "the ledger is up to date")
			return nil
		},
	}
	command.LedgerFlags(cmd, w.getenv, &c)
	return cmd
}
