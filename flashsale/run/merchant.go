package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/ledger"
)

// dsn returns the data source name of the ledger.
func (c *Config) dsn() (string, error) {
	switch {
	case c.Database != "":
		return c.Database, nil
	case c.Data != "":
		return "sqlite:" + filepath.Join(c.Data, "flashsale.db"), nil
	}
	return "", errors.New("run: neither data nor database: want where the ledger is")
}

// OpenLedger opens the ledger of c, also while a System is running, and migrates its schema.
func OpenLedger(ctx context.Context, c Config) (*ledger.Ledger, error) {
	dsn, err := c.dsn()
	if err != nil {
		return nil, err
	}
	if c.Database == "" {
		if _, err := c.ownSecret(); err != nil {
			return nil, err
		}
	}
	return ledger.Open(ctx, dsn, ledger.Config{})
}

// AddMerchant adds a merchant to the ledger of c, with an account of its name as the owner, or
// replaces the password of that account. It creates nothing if the name or the password is not valid.
func AddMerchant(ctx context.Context, c Config, name, password string) error {
	hash, err := hashOf(name, password)
	if err != nil {
		return err
	}
	l, err := OpenLedger(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(l.AddMerchant(ctx, name, hash), l.Close())
}

// hashOf returns the hash of the password of a merchant's account.
func hashOf(name, password string) (string, error) {
	if name == "" || len(name) > 128 || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return "", fmt.Errorf("merchant %.140q: want a name of 1 to 128 bytes of text without control characters", name)
	}
	hash, err := account.HashPassword(password)
	if err != nil {
		return "", fmt.Errorf("merchant %q: %w", name, err)
	}
	return hash, nil
}
