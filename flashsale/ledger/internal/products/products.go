// Package products stores what sales show of their products, in a ledger.
package products

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// Store implements catalogue.Store in a ledger.
type Store struct{ DB *database.DB }

var _ catalogue.Store = Store{}

// SetProduct implements catalogue.Store. It removes pictures that no sale shows any more. A change
// is an entry of the audit log, by the account of the context or the sale's merchant.
func (s Store) SetProduct(ctx context.Context, id string, p catalogue.Shown, now time.Time) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("ledger: product: %w", err)
	}
	doc, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("ledger: product: %w", err)
	}
	err = s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		before, err := read(x, id)
		if err != nil && !errors.Is(err, sale.ErrNotFound) {
			return err
		}
		if _, err := x.Exec("INSERT INTO products (sale, body, changed) VALUES ($1, $2, $3) ON CONFLICT (sale) DO UPDATE SET body = excluded.body, changed = excluded.changed",
			id, string(doc), now.UnixMilli()); err != nil {
			return err
		}
		if changes := p.Changes(&before); changes != "" {
			if err := appendAudit(x, id, "edited product: "+changes, now); err != nil {
				return err
			}
		}
		for _, old := range before.Pictures { // another sale may show it, too
			if _, err := x.Exec("DELETE FROM images WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM products WHERE body LIKE '%' || $1 || '%')", old.Hash); err != nil {
				return err
			}
		}
		return nil
	})
	if database.IsRejected(err) { // of an unknown sale
		err = fmt.Errorf("sale %.80q: %w", id, sale.ErrNotFound)
	}
	return wrap(err)
}

// maxAudit is the maximum size of an entry of the audit log.
const maxAudit = 4096

// appendAudit appends an entry by the merchant of a sale to the audit log.
func appendAudit(x *database.Tx, id, what string, now time.Time) error {
	var merchant string
	if err := x.Row("SELECT merchant FROM sales WHERE id = $1", id).Scan(&merchant); err != nil {
		return err
	}
	_, err := x.Exec("INSERT INTO audit (at, actor, sale, what) VALUES ($1, $2, $3, $4)", now.UnixMilli(), account.Actor(x.Context(), merchant), id, database.Text(what[:min(len(what), maxAudit)]))
	return err
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: products: %w", err)
}

// Product implements catalogue.Store.
func (s Store) Product(ctx context.Context, id string) (catalogue.Shown, error) {
	var p catalogue.Shown
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		p, err = read(x, id)
		return err
	})
	return p, wrap(err)
}

// read returns what a sale shows.
func read(x *database.Tx, id string) (catalogue.Shown, error) {
	var doc string
	var p catalogue.Shown
	err := x.Row("SELECT body FROM products WHERE sale = $1", id).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return p, fmt.Errorf("sale %.80q: %w", id, sale.ErrNotFound)
	}
	if err == nil {
		err = json.Unmarshal([]byte(doc), &p)
	}
	return p, err
}

// AddPicture implements catalogue.Store.
func (s Store) AddPicture(ctx context.Context, hash string, sizes []catalogue.Size, now time.Time) error {
	return wrap(s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		for _, z := range sizes {
			if _, err := x.Exec("INSERT INTO images (hash, width, kind, body, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
				hash, z.Width, z.Kind, z.Body, now.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	}))
}

// PictureSize implements catalogue.Store.
func (s Store) PictureSize(ctx context.Context, hash string, width int) (catalogue.Size, error) {
	z := catalogue.Size{Width: width}
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		err := x.Row("SELECT kind, body FROM images WHERE hash = $1 AND width = $2", hash, width).Scan(&z.Kind, &z.Body)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("picture %.40q: %w", hash, sale.ErrNotFound)
		}
		return err
	})
	return z, wrap(err)
}
