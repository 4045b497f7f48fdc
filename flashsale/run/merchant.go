package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/sale"
)

// dsn is the name of the ledger's database.
func (c *Config) dsn() (string, error) {
	switch {
	case c.Database != "":
		return c.Database, nil
	case c.Data != "":
		return "sqlite:" + filepath.Join(c.Data, "flashsale.db"), nil
	}
	return "", errors.New("run: neither data nor database: want where the ledger is")
}

// OpenLedger opens the ledger of c alone, beside a System that may be running, and brings
// its schema up to date.
func OpenLedger(ctx context.Context, c Config) (sale.Ledger, error) {
	dsn, err := c.dsn()
	if err != nil {
		return nil, err
	}
	if c.Database == "" {
		if _, _, err := c.secretsIn(); err != nil {
			return nil, err
		}
	}
	return ledger.Open(ctx, dsn, ledger.Config{})
}

// AddMerchant adds a merchant to the ledger of c, or gives one another password.
func AddMerchant(ctx context.Context, c Config, name, password string) error {
	l, err := OpenLedger(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(addMerchant(ctx, l, name, password), l.Close())
}

func addMerchant(ctx context.Context, l sale.Ledger, name, password string) error {
	hash, err := office.HashPassword(password)
	if err != nil {
		return fmt.Errorf("merchant %q: %w", name, err)
	}
	return l.AddMerchant(ctx, name, hash)
}
