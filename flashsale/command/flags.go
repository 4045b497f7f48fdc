package command

import (
	"strings"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

// LedgerFlags defines --data and --database, which name the ledger. A URL may hold a
// password, so it is read from the environment too, and never printed as a default.
func LedgerFlags(c *cobra.Command, getenv func(string) string, to *run.Config) {
	f := c.Flags()
	f.StringVar(&to.Data, "data", "", "the `DIRECTORY` of the embedded mode: one process keeps everything in a file")
	f.StringVar(&to.Database, "database", getenv("FLASHSALE_DATABASE"), "the ledger of several processes: `URL` postgres://… (or FLASHSALE_DATABASE)")
	f.Lookup("database").DefValue = ""
}

// StoreFlags defines the flags of LedgerFlags and --redis, which names the inventory.
func StoreFlags(c *cobra.Command, getenv func(string) string, to *run.Config) {
	LedgerFlags(c, getenv, to)
	f := c.Flags()
	f.StringVar(&to.Redis, "redis", getenv("FLASHSALE_REDIS"), "the inventory of several processes: `URL` redis://, rediss://, redis+sentinel:// or redis+cluster:// (or FLASHSALE_REDIS)")
	f.Lookup("redis").DefValue = ""
}

// CheckStores checks that the flags name the embedded mode or the servers, not both. A flag
// takes precedence over the environment.
func CheckStores(c *cobra.Command, to *run.Config) error {
	given := func(flag string) bool { f := c.Flags().Lookup(flag); return f != nil && f.Changed }
	for _, other := range []string{"database", "redis"} {
		if to.Data != "" && given(other) {
			return Usagef("--data %q and --%s: want one of them", to.Data, other)
		}
	}
	switch {
	case to.Data != "":
		to.Database, to.Redis = "", ""
	case to.Database == "" && to.Redis == "":
		return Usagef("want --data or --database, or FLASHSALE_DATABASE in the environment")
	case to.Database != "" && !strings.HasPrefix(to.Database, "postgres://") && !strings.HasPrefix(to.Database, "postgresql://"):
		return Usagef("--database: want a URL that begins with postgres://") // the URL may hold a password
	}
	return nil
}

// Positive checks that flags of numbers and durations, if given, are above 0.
func Positive(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		f := c.Flags().Lookup(name)
		if text := f.Value.String(); f.Changed && (text == "0" || text == "0s" || strings.HasPrefix(text, "-")) {
			return Usagef("--%s %s: want a value above 0", name, text)
		}
	}
	return nil
}
