package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

// ledgerFlags say where the orders are kept. What may hold a password is read from the
// environment too.
func (w *world) ledgerFlags(c *cobra.Command, to *run.Config) {
	f := c.Flags()
	f.StringVar(&to.Data, "data", "", "the `DIRECTORY` of the embedded mode, in which one process keeps everything in a file")
	f.StringVar(&to.Database, "database", w.getenv("FLASHSALE_DATABASE"), "the ledger of several processes: `URL` postgres://… (or FLASHSALE_DATABASE)")
	f.Lookup("database").DefValue = "" // a URL may hold a password
}

// storeFlags say where everything is kept.
func (w *world) storeFlags(c *cobra.Command, to *run.Config) {
	w.ledgerFlags(c, to)
	f := c.Flags()
	f.StringVar(&to.Redis, "redis", w.getenv("FLASHSALE_REDIS"), "their gate: `URL` redis://, rediss://, redis+sentinel:// or redis+cluster:// (or FLASHSALE_REDIS)")
	f.Lookup("redis").DefValue = ""
}

// stored checks where a command is told that a sale is kept: in one place. What a flag says
// counts before the environment.
func stored(c *cobra.Command, to *run.Config) error {
	said := func(flag string) bool { f := c.Flags().Lookup(flag); return f != nil && f.Changed }
	for _, other := range []string{"database", "redis"} {
		if to.Data != "" && said(other) {
			return misuse{fmt.Errorf("--data %q and --%s: want one of them", to.Data, other)}
		}
	}
	switch {
	case to.Data != "":
		to.Database, to.Redis = "", ""
	case to.Database == "" && to.Redis == "":
		return misuse{errors.New("want --data or --database, or FLASHSALE_DATABASE in the environment")}
	case to.Database != "" && !strings.HasPrefix(to.Database, "postgres://") && !strings.HasPrefix(to.Database, "postgresql://"):
		return misuse{errors.New("--database: want a URL that begins with postgres://")} // not shown: it may hold a password
	}
	return nil
}

// kept checks that the directory of the embedded mode has a ledger, for who makes none.
func kept(c *run.Config) error {
	if c.Data == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.Data, "flashsale.db")); err != nil {
		return fmt.Errorf("--data %q: want a directory with a sale: %w", c.Data, err)
	}
	return nil
}

// positive checks flags that are said, of numbers and durations that are above 0 and have a
// default.
func positive(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		f := c.Flags().Lookup(name)
		if text := f.Value.String(); f.Changed && (text == "0" || text == "0s" || strings.HasPrefix(text, "-")) {
			return misuse{fmt.Errorf("--%s %s: want one above 0", name, text)}
		}
	}
	return nil
}
