package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// A delivery that an earlier one holds is looked at again within these bounds, or when the
// earlier one ends.
const (
	minHeld = time.Second
	maxHeld = 10 * time.Minute
)

// openFor bounds how much longer an open delivery is kept than others.
const openFor = 60 * 24 * time.Hour

// heldRow is a delivery that is not sent now, with its next time.
type heldRow struct {
	Event string `json:"event"`
	Due   int64  `json:"due"`
}

// Lease implements webhook.Store. A later event of a subject is committed after the earlier one,
// so a statement that sees it sees both.
func (s Store) Lease(ctx context.Context, endpoint string, now, until time.Time, max int) ([]webhook.Delivery, error) {
	var all []webhook.Delivery
	err := s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		all = nil
		var held []heldRow
		if _, err := database.List(x, func(scan func(...any) error) (struct{}, error) {
			d := webhook.Delivery{Endpoint: endpoint, State: webhook.Pending, Due: until}
			var at int64
			var after *int64 // when the first open one before is due
			err := scan(&d.Event, &d.Subject, &d.Seq, &d.Type, &at, &d.Attempts, &d.Lease, &d.Body, &after)
			d.At = database.TimeOf(at)
			if after == nil {
				all = append(all, d)
			} else {
				due := min(maxOf(*after, now.Add(minHeld).UnixMilli()), now.Add(maxHeld).UnixMilli())
				held = append(held, heldRow{d.Event, due})
			}
			return struct{}{}, err
		}, `WITH due AS MATERIALIZED (
				SELECT d.event FROM webhook_deliveries d WHERE d.endpoint = $1 AND d.state = 'pending' AND d.due <= $2 ORDER BY d.due, d.seq LIMIT $4 {lock} {skip})
			UPDATE webhook_deliveries SET due = $3, lease = lease + 1
			WHERE endpoint = $1 AND state = 'pending' AND event IN (SELECT event FROM due)
			RETURNING event, subject, seq, type, at, attempts, lease,
				(SELECT o.body FROM outbox o WHERE o.id = webhook_deliveries.event),
				(SELECT max(CASE p.state WHEN 'dead' THEN 9000000000000000 ELSE p.due END) FROM webhook_deliveries p WHERE p.endpoint = webhook_deliveries.endpoint AND p.subject = webhook_deliveries.subject
					AND p.seq < webhook_deliveries.seq AND p.state IN ('pending', 'dead'))`,
			endpoint, now.UnixMilli(), until.UnixMilli(), max); err != nil || len(held) == 0 {
			return err
		}
		doc, err := json.Marshal(held)
		if err != nil {
			return err
		}
		_, err = x.Exec("UPDATE webhook_deliveries SET due = r.due FROM {rows:event text, due bigint} WHERE webhook_deliveries.endpoint = $2 AND webhook_deliveries.event = r.event", string(doc), endpoint)
		return err
	})
	slices.SortFunc(all, func(a, b webhook.Delivery) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq)) })
	return all, fail("lease", err)
}

func maxOf(a, b int64) int64 { return max(a, b) } // Lease has an argument max

// resultRow is a result as the statements read it.
type resultRow struct {
	Endpoint string        `json:"endpoint"`
	Event    string        `json:"event"`
	Subject  string        `json:"subject"`
	Seq      int64         `json:"seq"`
	State    webhook.State `json:"state"`
	Attempts int           `json:"attempts"`
	Lease    int64         `json:"lease"`
	Due      int64         `json:"due"`
	At       int64         `json:"at"` // 0: no attempt was made
	Status   int           `json:"status"`
	Duration int64         `json:"duration"`
	Error    string        `json:"error"`
	Response string        `json:"response"`
}

const resultRows = `{rows:endpoint text, event text, subject text, seq bigint, state text, attempts int, lease bigint, due bigint, at bigint, status int, duration bigint, error text, response text}`

// Finish implements webhook.Store.
func (s Store) Finish(ctx context.Context, now time.Time, results []webhook.Result) error {
	rows := make([]resultRow, len(results))
	delivered := false
	var gone []string
	for i, r := range results {
		d, a := r.Delivery, r.Attempt
		rows[i] = resultRow{d.Endpoint, d.Event, d.Subject, d.Seq, d.State, d.Attempts, d.Lease, d.Due.UnixMilli(), 0, a.Status, a.Duration.Milliseconds(), database.Text(a.Error), database.Text(a.Response)}
		if !a.At.IsZero() {
			rows[i].At = a.At.UnixMilli()
		}
		delivered = delivered || d.State == webhook.Delivered
		if r.Gone {
			gone = append(gone, d.Endpoint)
		}
	}
	// The same order in all transactions avoids deadlocks.
	slices.SortFunc(rows, func(a, b resultRow) int { return cmp.Compare(a.Event, b.Event) })
	encoded, err := json.Marshal(rows)
	if err != nil {
		return fail("finish", err)
	}
	doc := string(encoded)
	return fail("finish", s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		if _, err := x.Exec(`UPDATE webhook_deliveries SET state = r.state, attempts = r.attempts, due = r.due FROM `+resultRows+`
			WHERE webhook_deliveries.endpoint = r.endpoint AND webhook_deliveries.event = r.event AND webhook_deliveries.state IN ('pending', 'dead')
			AND (webhook_deliveries.lease = r.lease OR r.state = 'delivered')`, doc); err != nil {
			return err
		}
		// The endpoint may have been removed.
		if _, err := x.Exec(`INSERT INTO webhook_attempts (endpoint, event, at, status, duration_ms, error, response)
			SELECT r.endpoint, r.event, r.at, r.status, r.duration, r.error, r.response FROM `+resultRows+`
			JOIN webhook_deliveries d ON d.endpoint = r.endpoint AND d.event = r.event WHERE r.at <> 0`, doc); err != nil {
			return err
		}
		for _, id := range gone {
			if _, err := x.Exec("UPDATE webhook_endpoints SET disabled = 'gone' WHERE id = $1 AND disabled = ''", id); err != nil {
				return err
			}
		}
		if !delivered {
			return nil
		}
		_, err := x.Exec(`UPDATE webhook_deliveries SET due = $2 FROM `+resultRows+`
			WHERE webhook_deliveries.endpoint = r.endpoint AND webhook_deliveries.subject = r.subject AND webhook_deliveries.seq > r.seq
			AND webhook_deliveries.state = 'pending' AND webhook_deliveries.due > $2 AND r.state = 'delivered'`, doc, now.UnixMilli())
		return err
	}))
}

// Sweep implements webhook.Store.
func (s Store) Sweep(ctx context.Context, now, keep time.Time) error {
	const over = `state IN ('exposed', 'paused') AND ends_at <= $1 AND ends_at > $2
		AND EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.merchant = sales.merchant AND e.disabled = '' AND e.created <= sales.ends_at)
		AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.subject = sales.id AND o.type = 'sale.ended')`
	var ended []string
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		ended, err = database.List(x, database.ScanText, "SELECT id FROM sales WHERE "+over+" ORDER BY id LIMIT 100", now.UnixMilli(), now.Add(-24*time.Hour).UnixMilli())
		return err
	})
	for _, id := range ended {
		if err != nil {
			break
		}
		err = s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
			if err := x.Row("SELECT id FROM sales WHERE id = $1 {lock}", id).Scan(new(string)); err != nil {
				return err
			}
			return AppendEnded(x, id, now)
		})
	}
	if err != nil {
		return fail("sweep", err)
	}
	var old []string
	err = s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		old, err = database.List(x, database.ScanText, `SELECT id FROM outbox WHERE at < $1 AND (at < $2
			OR NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event = outbox.id AND d.state IN ('pending', 'dead'))) ORDER BY at LIMIT 500`,
			keep.UnixMilli(), keep.Add(-openFor).UnixMilli())
		return err
	})
	if err == nil && len(old) > 0 {
		err = s.DB.Do(ctx, database.WriteOne, func(x *database.Tx) error {
			_, err := x.Exec("DELETE FROM outbox WHERE id {among:1}", x.Among(old))
			return err
		})
	}
	return fail("sweep", err)
}

// Counts implements webhook.Store.
func (s Store) Counts(ctx context.Context) (webhook.Counts, error) {
	var c webhook.Counts
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		var oldest int64
		err := x.Row(`SELECT (SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'), (SELECT count(*) FROM webhook_deliveries WHERE state = 'dead'),
			coalesce((SELECT min(at) FROM webhook_deliveries WHERE state = 'pending'), 0)`).Scan(&c.Pending, &c.Dead, &oldest)
		if oldest > 0 {
			c.Oldest = database.TimeOf(oldest)
		}
		return err
	})
	return c, fail("counts", err)
}

const deliveryColumns = "d.endpoint, d.event, d.type, d.subject, d.seq, d.state, d.attempts, d.due, d.at, o.body"

func scanDelivery(scan func(...any) error) (d webhook.Delivery, err error) {
	var due, at int64
	err = scan(&d.Endpoint, &d.Event, &d.Type, &d.Subject, &d.Seq, &d.State, &d.Attempts, &due, &at, &d.Body)
	d.Due, d.At = database.TimeOf(due), database.TimeOf(at)
	return d, err
}

// owned returns an error if the endpoint is not the merchant's.
func owned(x *database.Tx, merchant, endpoint string) error {
	var n int
	err := x.Row("SELECT count(*) FROM webhook_endpoints WHERE "+mine, database.Storable(endpoint), merchant).Scan(&n)
	if err == nil && n == 0 {
		err = notFound(endpoint)
	}
	return err
}

// Deliveries implements webhook.Store.
func (s Store) Deliveries(ctx context.Context, merchant, endpoint string, f webhook.Filter) ([]webhook.Delivery, error) {
	var all []webhook.Delivery
	err := s.DB.Do(ctx, database.Read, func(x *database.Tx) error {
		if err := owned(x, merchant, endpoint); err != nil {
			return err
		}
		before := int64(1) << 62
		if f.After != "" {
			d, err := one(x, endpoint, f.After)
			if err != nil {
				return err
			}
			before = d.At.UnixMilli()
		}
		var err error
		all, err = database.List(x, scanDelivery, `SELECT `+deliveryColumns+` FROM webhook_deliveries d JOIN outbox o ON o.id = d.event
			WHERE d.endpoint = $1 AND (d.at, d.event) < ($2, $3) AND ($4 = '' OR d.state = $4) AND ($5 = '' OR d.type = $5) AND ($6 = '' OR d.subject = $6)
			ORDER BY d.at DESC, d.event DESC LIMIT 100`, endpoint, before, database.Storable(f.After), string(f.State), string(f.Type), database.Storable(f.Subject))
		return err
	})
	return all, fail("deliveries", err)
}

// one returns a delivery.
func one(x *database.Tx, endpoint, event string) (webhook.Delivery, error) {
	all, err := database.List(x, scanDelivery, "SELECT "+deliveryColumns+" FROM webhook_deliveries d JOIN outbox o ON o.id = d.event WHERE d.endpoint = $1 AND d.event = $2",
		endpoint, database.Storable(event))
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("event %.80q: %w", event, sale.ErrNotFound)
	}
	if err != nil {
		return webhook.Delivery{}, err
	}
	return all[0], nil
}

// Attempts implements webhook.Store.
func (s Store) Attempts(ctx context.Context, merchant, endpoint, event string) (webhook.Delivery, []webhook.Attempt, error) {
	var d webhook.Delivery
	var all []webhook.Attempt
	err := s.DB.Do(ctx, database.Read, func(x *database.Tx) (err error) {
		if err := owned(x, merchant, endpoint); err != nil {
			return err
		}
		if d, err = one(x, endpoint, event); err != nil {
			return err
		}
		all, err = database.List(x, func(scan func(...any) error) (a webhook.Attempt, err error) {
			var at, ms int64
			err = scan(&at, &a.Status, &ms, &a.Error, &a.Response)
			a.At, a.Duration = database.TimeOf(at), time.Duration(ms)*time.Millisecond
			return a, err
		}, "SELECT at, status, duration_ms, error, response FROM webhook_attempts WHERE endpoint = $1 AND event = $2 ORDER BY id DESC LIMIT 50", endpoint, event)
		return err
	})
	return d, all, fail("attempts", err)
}

// replay is the change of a delivery that is sent again. It ends the current lease.
const replay = "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, lease = lease + 1, due = $2 WHERE endpoint = $1 AND "

// Replay implements webhook.Store.
func (s Store) Replay(ctx context.Context, merchant, endpoint, event string, now time.Time) error {
	return fail("replay", s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		if err := owned(x, merchant, endpoint); err != nil {
			return err
		}
		n, err := x.Exec(replay+"event = $3", endpoint, now.UnixMilli(), database.Storable(event))
		if err == nil && n == 0 {
			err = fmt.Errorf("event %.80q: %w", event, sale.ErrNotFound)
		}
		return err
	}))
}

// ReplaySince implements webhook.Store.
func (s Store) ReplaySince(ctx context.Context, merchant, endpoint string, since, now time.Time) (n int64, err error) {
	err = s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		if err := owned(x, merchant, endpoint); err != nil {
			return err
		}
		n, err = x.Exec(replay+"at >= $3", endpoint, now.UnixMilli(), since.UnixMilli())
		return err
	})
	return n, fail("replay", err)
}

// Skip implements webhook.Store.
func (s Store) Skip(ctx context.Context, merchant, endpoint, event string, now time.Time) error {
	return fail("skip", s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		if err := owned(x, merchant, endpoint); err != nil {
			return err
		}
		d, err := one(x, endpoint, event)
		if err != nil {
			return err
		}
		n, err := x.Exec("UPDATE webhook_deliveries SET state = 'skipped', lease = lease + 1 WHERE endpoint = $1 AND event = $2 AND state IN ('pending', 'dead')", endpoint, d.Event)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: event %s is %s, want pending or dead", sale.ErrConflict, d.Event, d.State)
		}
		if err != nil {
			return err
		}
		_, err = x.Exec("UPDATE webhook_deliveries SET due = $4 WHERE endpoint = $1 AND subject = $2 AND seq > $3 AND state = 'pending' AND due > $4", endpoint, d.Subject, d.Seq, now.UnixMilli())
		return err
	}))
}
