package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/load"
	"github.com/spf13/cobra"
)

func loadCommand(stdout io.Writer) *cobra.Command {
	var c load.Config
	var secret, observations string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "load --url URL --sale ID",
		Short: "Put load on a shop and measure it",
		Long: "Put load on a shop and measure it. With --secret, the file with the shop's secret, the\n" +
			"load generator signs the sessions of its users; without it each user requests a session.\n" +
			"With --addresses users have different client addresses, if the shop trusts this\n" +
			"machine as a proxy.",
		Args: command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.Positive(cmd, "users", "connections", "requests", "duration"); err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(c.Processes)) {
				if pid := c.Processes[name]; pid < 1 || name == "" {
					return command.Usagef("--processes %s=%d: want a name and a process ID above 0", name, pid)
				}
			}
			if secret != "" {
				keys, err := run.Keys(secret)
				if err != nil {
					return err
				}
				until := time.Now().Add(2 * time.Hour)
				c.Session = func(user string) string { return keys.Session(pass.Session{User: user, Expires: until}) }
			}
			if err := load.Reach(cmd.Context(), c); err != nil {
				return err
			}
			if observations != "" {
				f, err := os.Create(observations) // only now: a run that fails earlier keeps the old file
				if err != nil {
					return fmt.Errorf("--observations: %w", err)
				}
				defer f.Close()
				c.Observations = f
			}
			r, err := load.Run(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(stdout).Encode(r)
			} else {
				_, err = fmt.Fprint(stdout, r.Text())
			}
			return errors.Join(err, failure(c.URL, r))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.URL, "url", "http://"+run.DefaultShop, "the `URL` of the shop or of the proxy in front of it")
	f.StringVar(&c.Sale, "sale", "", "the `ID` of the sale")
	f.StringVar((*string)(&c.Profile), "profile", string(load.Open), "what users do: open, soldout, drain, waiting or mixed")
	f.IntVar(&c.Users, "users", 10_000, "the number of users")
	f.StringVar(&c.Prefix, "prefix", "u", "the prefix of user names")
	f.IntVar(&c.Connections, "connections", 256, "the number of connections")
	f.IntVar(&c.Quantity, "quantity", 1, "the number of units of each order; if fewer are left, users order those")
	f.IntVar(&c.Pay, "pay", 100, "the percentage of buyers who pay")
	f.IntVar(&c.Cancel, "cancel", 0, "the percentage of buyers who cancel")
	f.IntVar(&c.Addresses, "addresses", 0, "the number of client addresses, sent as X-Forwarded-For")
	f.IntVar(&c.Patience, "patience", 0, "the number of retryable refusals after which a user gives up (0: never)")
	f.BoolVar(&c.AllTaken, "all-taken", false, "users continue when all units are reserved, since some may return")
	f.DurationVar(&c.MaxPoll, "max-poll", 0, "the maximum delay between two polls of a user (0: as the shop says)")
	f.Int64Var(&c.Requests, "requests", 0, "the maximum number of requests")
	f.BoolVar(&c.Claim, "claim", false, "users send false addresses in front of their own")
	f.BoolVar(&c.Sampled, "sampled", false, "record equal refusals as one observation")
	f.StringToIntVar(&c.Processes, "processes", nil, "measure local processes: `NAME=PID,…`")
	f.DurationVar(&c.Duration, "duration", time.Minute, "the maximum duration of the run")
	f.StringVar(&secret, "secret", "", "the `FILE` with the shop's secret")
	f.StringVar(&observations, "observations", "", "the `FILE` to write observations to, for audit")
	f.BoolVar(&c.Anywhere, "anywhere", false, "allow a URL that is not a loopback address")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// failure returns an error for a result with no response or with faults, so that a script
// does not take the run for a success.
func failure(url string, r load.Result) error {
	switch {
	case r.Requests == 0:
		return fmt.Errorf("load: url %q: no response: %s", url, strings.Join(slices.Sorted(maps.Keys(r.Errors)), ", "))
	case len(r.Faults) > 0:
		return fmt.Errorf("load: incorrect responses: %s", strings.Join(slices.Sorted(maps.Keys(r.Faults)), "; "))
	}
	return nil
}
