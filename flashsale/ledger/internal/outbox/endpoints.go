package outbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// Store implements webhook.Store in a ledger.
type Store struct{ DB *database.DB }

var _ webhook.Store = Store{}

// fail adds the operation to an error.
func fail(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: webhooks: %s: %w", operation, err)
}

// mine is the condition that endpoint $1 belongs to merchant $2.
const mine = "id = $1 AND ($2 = '' OR merchant = $2)"

func notFound(endpoint string) error {
	return fmt.Errorf("endpoint %.80q: %w", endpoint, sale.ErrNotFound)
}

// AddEndpoint implements webhook.Store.
func (s Store) AddEndpoint(ctx context.Context, merchant, url, secret string, now time.Time) (webhook.Endpoint, error) {
	if err := webhook.CheckURL(url); err != nil {
		return webhook.Endpoint{}, fail("add", err)
	}
	e := webhook.Endpoint{ID: "ep_" + strings.ToLower(rand.Text()[:16]), Merchant: merchant, URL: url, CreatedAt: database.TimeOf(now.UnixMilli()), Secrets: []string{secret}}
	return e, fail("add", s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		var known, n int
		if err := x.Row("SELECT count(*) FROM (SELECT name FROM merchants WHERE name = $1 {lock}) AS m", database.Storable(merchant)).Scan(&known); err != nil {
			return err
		}
		if known == 0 {
			return fmt.Errorf("merchant %.80q: %w", merchant, sale.ErrNotFound)
		}
		if err := x.Row("SELECT count(*) FROM webhook_endpoints WHERE merchant = $1", merchant).Scan(&n); err != nil {
			return err
		}
		if n >= webhook.MaxEndpoints {
			return fmt.Errorf("%w: merchant %.80q has %d endpoints, want up to %d", sale.ErrConflict, merchant, n, webhook.MaxEndpoints)
		}
		_, err := x.Exec("INSERT INTO webhook_endpoints (id, merchant, url, secret, created) VALUES ($1, $2, $3, $4, $5)", e.ID, merchant, url, secret, now.UnixMilli())
		if database.IsDuplicate(err) {
			err = fmt.Errorf("%w: merchant %.80q has an endpoint with this URL", sale.ErrConflict, merchant)
		}
		return err
	}))
}

// Endpoints implements webhook.Store.
func (s Store) Endpoints(ctx context.Context, merchant string) ([]webhook.Endpoint, error) {
	var all []webhook.Endpoint
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (e webhook.Endpoint, err error) {
			var created int64
			err = scan(&e.ID, &e.Merchant, &e.URL, &e.Disabled, &created, &e.Pending, &e.Dead)
			e.CreatedAt = database.TimeOf(created)
			return e, err
		}, `SELECT id, merchant, url, disabled, created,
			(SELECT count(*) FROM webhook_deliveries d WHERE d.endpoint = webhook_endpoints.id AND d.state = 'pending'),
			(SELECT count(*) FROM webhook_deliveries d WHERE d.endpoint = webhook_endpoints.id AND d.state = 'dead')
			FROM webhook_endpoints WHERE $1 = '' OR merchant = $1 ORDER BY merchant, created, id`, merchant)
		return err
	})
	return all, fail("endpoints", err)
}

// RotateSecret implements webhook.Store.
func (s Store) RotateSecret(ctx context.Context, merchant, endpoint, secret string, until time.Time) error {
	return s.change(ctx, "rotate", endpoint, merchant, "UPDATE webhook_endpoints SET old_secret = secret, old_until = $4, secret = $3 WHERE "+mine, secret, until.UnixMilli())
}

// SetDisabled implements webhook.Store.
func (s Store) SetDisabled(ctx context.Context, merchant, endpoint, why string) error {
	return s.change(ctx, "disable", endpoint, merchant, "UPDATE webhook_endpoints SET disabled = $3 WHERE "+mine, why)
}

// RemoveEndpoint implements webhook.Store.
func (s Store) RemoveEndpoint(ctx context.Context, merchant, endpoint string) error {
	return s.change(ctx, "remove", endpoint, merchant, "DELETE FROM webhook_endpoints WHERE "+mine)
}

// change executes a statement that changes one endpoint.
func (s Store) change(ctx context.Context, operation, endpoint, merchant, statement string, args ...any) error {
	return fail(operation, s.DB.Do(ctx, database.WriteOne, func(x *database.Tx) error {
		n, err := x.Exec(statement, append([]any{database.Storable(endpoint), merchant}, args...)...)
		if err == nil && n == 0 {
			err = notFound(endpoint)
		}
		return err
	}))
}

// DueEndpoints implements webhook.Store.
func (s Store) DueEndpoints(ctx context.Context, now time.Time) ([]webhook.Endpoint, error) {
	var all []webhook.Endpoint
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (e webhook.Endpoint, err error) {
			var secret, old string
			var until int64
			err = scan(&e.ID, &e.Merchant, &e.URL, &secret, &old, &until)
			e.Secrets = []string{secret}
			if old != "" && now.UnixMilli() < until {
				e.Secrets = append(e.Secrets, old)
			}
			return e, err
		}, `SELECT id, merchant, url, secret, old_secret, old_until FROM webhook_endpoints WHERE disabled = ''
			AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.endpoint = webhook_endpoints.id AND d.state = 'pending' AND d.due <= $1) LIMIT 100`, now.UnixMilli())
		return err
	})
	return all, fail("due", err)
}
