package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	"github.com/floodweir/weir/flashsale/sale"
)

const saleColumns = `id, merchant, sku, title, price, currency, stock, per_user, max_quantity, starts_at, ends_at, headroom, queue,
	lobby_ms, pay_within_ms, token_for_ms, work, members_only, address, campaign, sold, paid, state, why, recovering, epoch, version, created`

// sales implements sale.SaleLedger.
type sales struct{ db *database.DB }

// saleRow is a row of the table sales.
type saleRow struct {
	sale.Sale
	recovering bool
}

func scanSale(scan func(...any) error) (saleRow, error) {
	var k saleRow
	s := &k.Sale
	var starts, ends, lobby, pay, token, created int64
	var recovering, members int
	err := scan(&s.ID, &s.Merchant, &s.SKU, &s.Title, &s.Price, &s.Currency, &s.Stock, &s.PerUser, &s.MaxQuantity, &starts, &ends, &s.Headroom, &s.Queue,
		&lobby, &pay, &token, &s.Work, &members, &s.Address, &s.Campaign, &s.Sold, &s.Paid, &s.State, &s.StateReason, &recovering, &s.Epoch, &s.Version, &created)
	s.StartsAt, s.EndsAt, s.CreatedAt = database.TimeOf(starts), database.TimeOf(ends), database.TimeOf(created)
	s.Lobby, s.PayWithin, s.TokenFor = ms(lobby), ms(pay), ms(token)
	k.recovering, s.MembersOnly = recovering != 0, members != 0
	return k, err
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// load reads a sale. With lock it locks the row until x ends.
func load(x *database.Tx, id string, lock bool) (saleRow, error) {
	text := "SELECT " + saleColumns + " FROM sales WHERE id = $1"
	if lock {
		text += " {lock}"
	}
	k, err := scanSale(x.Row(text, database.Storable(id)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("sale %s: %w", quote(id), sale.ErrNotFound)
	}
	return k, err
}

// Create implements sale.Ledger.
func (l *sales) Create(ctx context.Context, merchant, key string, d sale.Draft, now time.Time) (sale.Sale, error) {
	d = d.WithDefaults()
	err := errors.Join(validateName("merchant", merchant), d.Validate())
	id := strings.ToLower(rand.Text()[:16])
	if key != "" {
		err = errors.Join(err, validateName("key", key))
		id = idOf("create", merchant, key)
	}
	if err != nil {
		return sale.Sale{}, fail("create", err)
	}
	s := sale.Sale{
		ID: id, Merchant: merchant, Draft: d,
		State: sale.Drafted, Version: 1, CreatedAt: database.TimeOf(millis(now)),
	}
	err = fail("create", l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		if err := claimCampaign(x, merchant, d.Campaign); err != nil {
			return err
		}
		fresh, err := insertDraft(x, &s)
		if err != nil {
			return err
		}
		if fresh {
			return appendAudit(x, merchant, s.ID, "created", now)
		}
		k, err := load(x, s.ID, false)
		if err == nil && k.State == sale.Drafted && k.Version == 1 && !slices.Equal(draftArgs(k.Draft), draftArgs(d)) {
			err = fmt.Errorf("%w: key %s has created sale %s with another draft", sale.ErrConflict, quote(key), k.ID)
		}
		s = k.Sale
		return err
	}))
	if err != nil {
		return sale.Sale{}, err
	}
	return s, nil
}

// idOf returns the ID of the sale that an operation of a subject with a key makes, so that a
// repeated call finds it.
func idOf(operation, subject, key string) string {
	sum := sha256.Sum256([]byte(operation + "\x00" + subject + "\x00" + key))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:16])
}

// insertDraft inserts a draft. It returns false if the sale exists.
func insertDraft(x *database.Tx, s *sale.Sale) (bool, error) {
	args := append([]any{s.ID, s.Merchant, millis(s.CreatedAt)}, draftArgs(s.Draft)...)
	n, err := x.Exec(`INSERT INTO sales (id, merchant, created, sku, title, price, currency, stock, per_user,
		starts_at, ends_at, headroom, queue, lobby_ms, pay_within_ms, token_for_ms, work, members_only, address, campaign, max_quantity)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) ON CONFLICT (id) DO NOTHING`, args...)
	return n == 1, err
}

// Copy implements sale.Ledger.
func (l *sales) Copy(ctx context.Context, merchant, id, key string, now time.Time) (sale.Sale, error) {
	if err := validateName("key", key); err != nil {
		return sale.Sale{}, fail("copy", err)
	}
	s := sale.Sale{
		ID: idOf("copy", id, key), Merchant: merchant,
		State: sale.Drafted, Version: 1, CreatedAt: database.TimeOf(millis(now)),
	}
	err := fail("copy", l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		from, err := load(x, id, false)
		if err == nil && from.Merchant != merchant {
			err = fmt.Errorf("sale %s: %w", quote(id), sale.ErrNotFound)
		}
		if err != nil {
			return err
		}
		s.Draft = from.Draft
		if late := now.Sub(s.StartsAt); late >= 0 {
			const day = 24 * time.Hour
			shift := (late/day + 1) * day
			s.StartsAt, s.EndsAt = s.StartsAt.Add(shift), s.EndsAt.Add(shift)
		}
		fresh, err := insertDraft(x, &s)
		if err != nil {
			return err
		}
		if !fresh {
			k, err := load(x, s.ID, false)
			s = k.Sale
			return err
		}
		if _, err := x.Exec("INSERT INTO products (sale, body, changed) SELECT $2, body, $3 FROM products WHERE sale = $1", from.ID, s.ID, millis(now)); err != nil {
			return err
		}
		return appendAudit(x, merchant, s.ID, "copied from "+from.ID, now)
	}))
	if err != nil {
		return sale.Sale{}, err
	}
	return s, nil
}

func draftArgs(d sale.Draft) []any {
	return []any{
		d.SKU, d.Title, d.Price, d.Currency, d.Stock, d.PerUser, millis(d.StartsAt), millis(d.EndsAt), d.Headroom, string(d.Queue),
		d.Lobby.Milliseconds(), d.PayWithin.Milliseconds(), d.TokenFor.Milliseconds(), d.Work, bit(d.MembersOnly), string(d.Address), d.Campaign, d.MaxQuantity,
	}
}

// Edit implements sale.Ledger.
func (l *sales) Edit(ctx context.Context, merchant, id string, version int64, d sale.Draft, now time.Time) (sale.Sale, error) {
	d = d.WithDefaults()
	if err := d.Validate(); err != nil {
		return sale.Sale{}, fail("edit", err)
	}
	return l.changeSale(ctx, "edit", id, func(x *database.Tx, k saleRow) error {
		switch {
		case k.Merchant != merchant:
			return fmt.Errorf("sale %s: %w", quote(id), sale.ErrNotFound)
		case k.Version != version:
			return fmt.Errorf("%w: sale %s has version %d, not %d", sale.ErrConflict, k.ID, k.Version, version)
		}
		if err := k.ValidateEdit(d, now); err != nil {
			return err
		}
		if changes := d.Changes(k.Draft); changes != "" {
			if err := appendAudit(x, merchant, k.ID, "edited: "+changes, now); err != nil {
				return err
			}
		}
		if err := claimCampaign(x, merchant, d.Campaign); err != nil {
			return err
		}
		_, err := x.Exec(`UPDATE sales SET version = version + 1, sku = $2, title = $3, price = $4, currency = $5, stock = $6, per_user = $7,
			starts_at = $8, ends_at = $9, headroom = $10, queue = $11, lobby_ms = $12, pay_within_ms = $13, token_for_ms = $14, work = $15, members_only = $16, address = $17, campaign = $18, max_quantity = $19
			WHERE id = $1`, append([]any{k.ID}, draftArgs(d)...)...)
		return err
	})
}

// changeSale locks the row of a sale, calls f and returns the changed sale.
func (l *sales) changeSale(ctx context.Context, what, id string, f func(*database.Tx, saleRow) error) (sale.Sale, error) {
	var k saleRow
	err := fail(what, l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		was, err := load(x, id, true)
		if err != nil {
			return err
		}
		if err := f(x, was); err != nil {
			return err
		}
		k, err = load(x, id, false)
		return err
	}))
	if err != nil {
		return sale.Sale{}, err
	}
	return k.Sale, nil
}

// Sale implements sale.Ledger.
func (l *sales) Sale(ctx context.Context, id string) (sale.Sale, error) {
	var k saleRow
	err := fail("sale", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		k, err = load(x, id, false)
		return err
	}))
	return k.Sale, err
}

// Sales implements sale.Ledger.
func (l *sales) Sales(ctx context.Context, merchant, after string) ([]sale.Sale, error) {
	where, args := "state <> 'draft'", []any(nil)
	if merchant != "" {
		where, args = "merchant = $1", []any{database.Storable(merchant)}
	}
	var all []sale.Sale
	err := fail("sales", l.db.Do(ctx, database.Read, func(x *database.Tx) (err error) {
		if after != "" {
			k, err := load(x, after, false)
			if err != nil {
				return err
			}
			n := len(args)
			where += fmt.Sprintf(" AND (created, id) < ($%d, $%d)", n+1, n+2)
			args = append(args, millis(k.CreatedAt), k.ID)
		}
		all, err = salesOf(x, where+" ORDER BY created DESC, id DESC LIMIT 100", args...)
		return err
	}))
	return all, err
}

// LiveSales implements sale.Ledger.
func (l *sales) LiveSales(ctx context.Context) ([]sale.Sale, error) {
	var all []sale.Sale
	err := fail("live", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = salesOf(x, "state IN ('exposed', 'paused') ORDER BY created, id")
		return err
	}))
	return all, err
}

func salesOf(x *database.Tx, where string, args ...any) ([]sale.Sale, error) {
	ks, err := database.List(x, scanSale, "SELECT "+saleColumns+" FROM sales WHERE "+where, args...)
	all := make([]sale.Sale, len(ks))
	for i, k := range ks {
		all[i] = k.Sale
	}
	return all, err
}

func unitsError(units, max int64) error {
	want := fmt.Sprintf("1 to %d", max)
	if max == 0 {
		want = fmt.Sprintf("none: the sale has %d", sale.MaxStock)
	}
	return &sale.FieldError{Field: "units", Value: strconv.FormatInt(units, 10), Want: want, Code: sale.OutOfRange, Min: 1, Max: max}
}

// AddStock implements sale.Ledger.
func (l *sales) AddStock(ctx context.Context, actor, id, key string, units int64, now time.Time) (sale.Sale, error) {
	err := errors.Join(validateName("actor", actor), validateName("key", key))
	if units < 1 || units > sale.MaxStock {
		err = errors.Join(err, unitsError(units, sale.MaxStock))
	}
	if err != nil {
		return sale.Sale{}, fail("add stock", err)
	}
	return l.changeSale(ctx, "add stock", id, func(x *database.Tx, k saleRow) error {
		var before int64
		switch err := x.Row("SELECT units FROM movements WHERE sale = $1 AND key = $2", k.ID, "add:"+key).Scan(&before); {
		case err == nil && before == units:
			return nil // repeated call
		case err == nil:
			return fmt.Errorf("%w: key %s has added %d units, not %d", sale.ErrConflict, quote(key), before, units)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if k.State != sale.Exposed && k.State != sale.Paused {
			return fmt.Errorf("%w: sale %s: got state %s, want exposed or paused", sale.ErrConflict, k.ID, k.State)
		}
		if k.Stock+units > sale.MaxStock {
			return unitsError(units, sale.MaxStock-k.Stock)
		}
		if err := moveStock(x, k.ID, "add:"+key, units, now); err != nil {
			return err
		}
		if _, err := x.Exec("UPDATE sales SET stock = stock + $2, version = version + 1 WHERE id = $1", k.ID, units); err != nil {
			return err
		}
		return appendAudit(x, actor, k.ID, fmt.Sprintf("added %d units", units), now)
	})
}

func moveStock(x *database.Tx, id, key string, units int64, now time.Time) error {
	_, err := x.Exec("INSERT INTO movements (sale, kind, units, key, at) VALUES ($1, 'stock', $2, $3, $4)", id, units, key, millis(now))
	return err
}

// SetState implements sale.Ledger. The package documentation describes its effect during a
// recovery.
func (l *sales) SetState(ctx context.Context, actor, id string, to sale.State, why string, now time.Time, from ...sale.State) (sale.Sale, error) {
	if err := errors.Join(validateName("actor", actor), validateState(to, why)); err != nil {
		return sale.Sale{}, fail("set state", err)
	}
	return l.changeSale(ctx, "set state", id, func(x *database.Tx, k saleRow) error {
		was := k.State
		if was == sale.Paused && k.StateReason == sale.Recovering && !slices.Contains(from, was) {
			was = sale.Exposed // its state without the recovery
		}
		if !slices.Contains(from, was) || !canFollow(was, to) {
			return fmt.Errorf("%w: sale %s is %s (%s) and cannot become %s", sale.ErrConflict, k.ID, k.State, k.StateReason, to)
		}
		state, reason, recovering := to, why, k.recovering
		switch to {
		case sale.Exposed:
			reason = ""
			if k.recovering { // it reopens after the recovery
				state, reason = sale.Paused, sale.Recovering
			}
		case sale.Ended:
			recovering = false
		}
		if state == k.State && reason == k.StateReason && recovering == k.recovering {
			return nil
		}
		if _, err := x.Exec("UPDATE sales SET state = $2, why = $3, recovering = $4, epoch = CASE epoch WHEN 0 THEN 1 ELSE epoch END, version = version + 1 WHERE id = $1",
			k.ID, string(state), reason, bit(recovering)); err != nil {
			return err
		}
		if k.State == sale.Drafted {
			if err := moveStock(x, k.ID, "expose", k.Stock, now); err != nil {
				return err
			}
		}
		if state == sale.Ended && k.State != sale.Ended {
			if err := outbox.AppendEnded(x, k.ID, now); err != nil {
				return err
			}
		}
		return appendAudit(x, actor, k.ID, fmt.Sprintf("%s (%s) became %s (%s)", k.State, k.StateReason, state, reason), now)
	})
}

// validateState returns an error if SetState cannot set this state.
func validateState(to sale.State, why string) error {
	ok := false
	switch to {
	case sale.Exposed:
		ok = true
	case sale.Paused:
		ok = why == sale.ByMerchant
	case sale.Ended:
		ok = why == sale.ByMerchant || why == sale.Killed
	}
	if !ok {
		return fmt.Errorf("%w: state: got %s (%s), want exposed, paused (%s) or ended (%s or %s)",
			sale.ErrInvalid, quote(string(to)), quote(why), sale.ByMerchant, sale.ByMerchant, sale.Killed)
	}
	return nil
}

// canFollow lists the states that can follow a state.
func canFollow(was, to sale.State) bool {
	switch was {
	case sale.Drafted:
		return to == sale.Exposed
	case sale.Exposed, sale.Paused:
		return true
	}
	return to == was
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
