package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

// password reads a password, the first line of the standard input.
func (w *environment) password() (string, error) {
	line, err := bufio.NewReader(io.LimitReader(w.stdin, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func (w *environment) account() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account (add | list | role | password | disable | enable)",
		Short: "Manage the accounts of a merchant",
		Long: "Manage the accounts of a merchant in the office. Each has a password and a role:\n" +
			"view, service (also orders and contact data), manage (also sales, products,\n" +
			"webhooks and stock) or owner (also accounts). A change takes effect at the next\n" +
			"request. A password is the first line of the standard input.",
	}
	hash := func() (string, error) {
		password, err := w.password()
		if err != nil {
			return "", err
		}
		return account.HashPassword(password)
	}
	show := func(a account.Account, err error) error {
		if err == nil {
			state := ""
			if a.Disabled {
				state = ", disabled"
			}
			fmt.Fprintf(w.stdout, "account %s of %s: %s%s\n", a.Name, a.Merchant, a.Role, state)
		}
		return err
	}
	cmd.AddCommand(
		w.accountCommand("add MERCHANT NAME ROLE", "Add an account", func(ctx context.Context, s account.Store, args []string) error {
			h, err := hash()
			if err != nil {
				return err
			}
			return show(s.Add(ctx, account.Operator, account.Account{Merchant: args[0], Name: args[1], Role: account.Role(args[2]), Hash: h}, time.Now()))
		}),
		w.accountCommand("list MERCHANT", "List the accounts of a merchant", func(ctx context.Context, s account.Store, args []string) error {
			all, err := s.Accounts(ctx, args[0])
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ACCOUNT\tROLE\tDISABLED")
			for _, a := range all {
				fmt.Fprintf(t, "%s\t%s\t%v\n", a.Name, a.Role, a.Disabled)
			}
			return t.Flush()
		}),
		w.accountCommand("role MERCHANT NAME ROLE", "Change the role of an account", func(ctx context.Context, s account.Store, args []string) error {
			return show(s.SetRole(ctx, account.Operator, args[0], args[1], account.Role(args[2]), time.Now()))
		}),
		w.accountCommand("password MERCHANT NAME", "Replace the password of an account and end its sessions", func(ctx context.Context, s account.Store, args []string) error {
			h, err := hash()
			if err != nil {
				return err
			}
			return show(s.SetHash(ctx, account.Operator, args[0], args[1], h, time.Now()))
		}),
		w.accountCommand("disable MERCHANT NAME", "Disable an account and end its sessions", func(ctx context.Context, s account.Store, args []string) error {
			return show(s.SetDisabled(ctx, account.Operator, args[0], args[1], true, time.Now()))
		}),
		w.accountCommand("enable MERCHANT NAME", "Enable an account", func(ctx context.Context, s account.Store, args []string) error {
			return show(s.SetDisabled(ctx, account.Operator, args[0], args[1], false, time.Now()))
		}),
	)
	return cmd
}

// accountCommand returns a command that calls f with the accounts of the ledger that the flags
// name. use has one word for each argument.
func (w *environment) accountCommand(use, short string, f func(ctx context.Context, s account.Store, args []string) error) *cobra.Command {
	var c run.Config
	cmd := &cobra.Command{
		Use:   use + " (--data DIRECTORY | --database URL)",
		Short: short,
		Args:  command.Args(cobra.ExactArgs(strings.Count(use, " "))),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckStores(cmd, &c); err != nil {
				return err
			}
			l, err := run.OpenLedger(cmd.Context(), c)
			if err != nil {
				return err
			}
			return errors.Join(f(cmd.Context(), l.Accounts(), args), l.Close())
		},
	}
	command.LedgerFlags(cmd, w.getenv, &c)
	return cmd
}
