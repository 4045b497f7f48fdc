package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/load"
	"github.com/spf13/cobra"
)

func (w *world) load() *cobra.Command {
	var c load.Config
	var secret, observations string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "load --url URL --sale ID",
		Short: "Come as a crowd, and measure what it met",
		Long: "Come as a crowd, and measure what it met. The users' sessions are signed with the\n" +
			"server's secret, if --secret names it; without it each asks for one. Limits per address\n" +
			"count --addresses, which the server believes if it trusts this machine.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd, "users", "connections", "requests", "duration"); err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(c.Processes)) {
				if pid := c.Processes[name]; pid < 1 || name == "" {
					return misuse{fmt.Errorf("--processes %s=%d: want a name, and the ID of a process, which is above 0", name, pid)}
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
				f, err := os.Create(observations) // the run begins now
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
				err = json.NewEncoder(w.stdout).Encode(r)
			} else {
				_, err = fmt.Fprint(w.stdout, r.Text())
			}
			return errors.Join(err, verdict(c.URL, r))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.URL, "url", "http://"+run.DefaultShop, "the `URL` of the shop, or of what stands before it")
	f.StringVar(&c.Sale, "sale", "", "the `ID` of the sale")
	f.StringVar((*string)(&c.Profile), "profile", string(load.Open), "what the crowd does: open, soldout, drain, waiting or mixed")
	f.IntVar(&c.Users, "users", 10_000, "how many come")
	f.StringVar(&c.Prefix, "prefix", "u", "what the names of the users begin with")
	f.IntVar(&c.Connections, "connections", 256, "over how many connections")
	f.IntVar(&c.Pay, "pay", 100, "how many of a hundred buyers pay")
	f.IntVar(&c.Cancel, "cancel", 0, "how many of a hundred buyers cancel")
	f.IntVar(&c.Addresses, "addresses", 0, "from how many addresses they come, by X-Forwarded-For")
	f.IntVar(&c.Patience, "patience", 0, "after how many refusals that can be tried again a user gives up (never if 0)")
	f.BoolVar(&c.AllTaken, "all-taken", false, "users who are told that all units are taken ask on, since some may return")
	f.DurationVar(&c.MaxPoll, "max-poll", 0, "the longest that a user waits before asking again (as long as the shop says if 0)")
	f.Int64Var(&c.Requests, "requests", 0, "the bound on the requests")
	f.BoolVar(&c.Claim, "claim", false, "users claim other addresses before their own")
	f.BoolVar(&c.Sampled, "sampled", false, "observe refusals that are equal in one line")
	f.StringToIntVar(&c.Processes, "processes", nil, "measure processes of this machine: `NAME=PID,…`")
	f.DurationVar(&c.Duration, "duration", time.Minute, "the bound on the whole run")
	f.StringVar(&secret, "secret", "", "the `FILE` with the server's secret")
	f.StringVar(&observations, "observations", "", "the `FILE` to write what was seen to, for the auditor")
	f.BoolVar(&c.Anywhere, "anywhere", false, "permit a URL that is not of this machine")
	f.BoolVar(&asJSON, "json", false, "print all figures as JSON")
	return cmd
}

// verdict is what is wrong with a run, whatever its figures: a script should not take it for
// a good one.
func verdict(url string, r load.Result) error {
	switch {
	case r.Requests == 0:
		return fmt.Errorf("load: url %q: nothing answered: %s", url, strings.Join(slices.Sorted(maps.Keys(r.Errors)), ", "))
	case len(r.Faults) > 0:
		return fmt.Errorf("load: answers that are never right: %s", strings.Join(slices.Sorted(maps.Keys(r.Faults)), "; "))
	}
	return nil
}
