package shop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// merchants implements sale.MerchantService.
type merchants struct {
	*env
	catalog   *catalog
	admission *admission
	sweeper   *sweeper
	recovery  func(*liveSale) *recovery
	worker    string
	workers   int
	members   bool                                        // buyers can have an identity
	refused   func() map[sale.Layer]map[sale.Reason]int64 // nil: those of this Shop
	curves    sale.Curves                                 // nil: none
}

// Create implements sale.MerchantService.
func (m *merchants) Create(ctx context.Context, merchant, key string, d sale.Draft) (sale.Sale, error) {
	if !sale.IsKey(key) {
		return sale.Sale{}, badKey(key)
	}
	if err := validateDraft(d); err != nil {
		return sale.Sale{}, err
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	row, err := m.ledger.Create(ctx, merchant, key, d, m.clock())
	if err != nil {
		return sale.Sale{}, wrap("create", err)
	}
	return row, nil
}

// Copy implements sale.MerchantService.
func (m *merchants) Copy(ctx context.Context, merchant, id, key string) (sale.Sale, error) {
	if key == "" || !sale.IsKey(key) {
		return sale.Sale{}, badKey(key)
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	row, err := m.ledger.Copy(ctx, merchant, id, key, m.clock())
	if err != nil {
		return sale.Sale{}, wrap("copy", err)
	}
	return row, nil
}

func badKey(key string) error {
	return fmt.Errorf("shop: %w: Idempotency-Key: got %d bytes, want 1 to 64 printable characters", sale.ErrInvalid, len(key))
}

// Edit implements sale.MerchantService.
func (m *merchants) Edit(ctx context.Context, merchant, id string, version int64, d sale.Draft) (sale.Sale, error) {
	if err := validateDraft(d); err != nil {
		return sale.Sale{}, err
	}
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return sale.Sale{}, err
	}
	call, cancel := m.callToEnd(ctx)
	defer cancel()
	row, err := m.ledger.Edit(call, merchant, id, version, d, m.clock())
	if err != nil {
		return sale.Sale{}, wrap("edit", err)
	}
	if row.State != sale.Drafted {
		// If the inventory is unavailable, the inventorySync of any process sets its terms.
		if err := m.inventory.SetTerms(call, id, row.Epoch, row.Terms()); err != nil {
			m.log.Warn("cannot set terms of inventory, will retry", "sale", id, "error", err)
		}
		m.changed(call, row)
	}
	return row, nil
}

func validateDraft(d sale.Draft) error {
	if err := d.WithDefaults().Validate(); err != nil {
		return fmt.Errorf("shop: draft: %w", err)
	}
	return nil
}

// Sales implements sale.MerchantService.
func (m *merchants) Sales(ctx context.Context, merchant, after string) ([]sale.Sale, error) {
	if merchant == "" {
		return nil, fmt.Errorf("shop: %w: merchant: got none, want a name", sale.ErrInvalid)
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	rows, err := m.ledger.Sales(ctx, merchant, after)
	if err != nil {
		return nil, wrap("sales", err)
	}
	return rows, nil
}

// Sale implements sale.MerchantService.
func (m *merchants) Sale(ctx context.Context, merchant, id string) (sale.Sale, error) {
	ctx, cancel := m.call(ctx)
	defer cancel()
	row, err := m.ledger.Sale(ctx, id)
	if err == nil && row.Merchant != merchant {
		err = sale.ErrNotFound
	}
	if err != nil {
		return sale.Sale{}, wrap("sale", err)
	}
	return row, nil
}

// Check implements sale.MerchantService.
func (m *merchants) Check(ctx context.Context, merchant, id string) ([]string, error) {
	row, err := m.Sale(ctx, merchant, id)
	if err != nil {
		return nil, err
	}
	return m.check(ctx, row), nil
}

// pastStart begins the one problem that does not prevent exposing a sale.
const pastStart = "starts_at: "

func (m *merchants) check(ctx context.Context, row sale.Sale) []string {
	const format = "2006-01-02T15:04:05Z"
	ctx, cancel := m.call(ctx)
	defer cancel()
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if row.State != sale.Drafted {
		problem("state: got %s, want draft", row.State)
	}
	if err := row.Draft.WithDefaults().Validate(); err != nil {
		problem("%v", err)
	}
	now := m.clock()
	if !row.EndsAt.After(now) {
		problem("ends_at: %s is in the past", row.EndsAt.UTC().Format(format))
	}
	if row.StartsAt.Before(now) && row.EndsAt.After(now) {
		problem(pastStart+"%s is in the past: the sale would open at once", row.StartsAt.UTC().Format(format))
	}
	if row.MembersOnly && !m.members {
		problem("members_only: this shop has no identity of buyers, so no buyer could get a ticket")
	}
	if r, err := tokenRequest(weir.Peek, &row, 1); err != nil {
		problem("headroom %d × stock %d is too large for an admission limit: %v", row.Headroom, row.Stock, err)
	} else if _, err := m.admission.store.Do(ctx, r); err != nil {
		problem("limit store unavailable: %v", err)
	}
	// An inventory without a state of this sale returns ErrStale.
	if _, err := m.inventory.Counts(ctx, row.ID, max(1, row.Epoch)); err != nil && !errors.Is(err, sale.ErrStale) {
		problem("inventory unavailable: %v", err)
	} else if err == nil && row.State == sale.Drafted {
		problem("the inventory has a state of this sale already")
	}
	if err := m.ledger.Ping(ctx); err != nil {
		problem("ledger unavailable: %v", err)
	}
	return problems
}

// blocking returns the problems that prevent exposing a sale.
func blocking(problems []string) []string {
	var bs []string
	for _, p := range problems {
		if !strings.HasPrefix(p, pastStart) {
			bs = append(bs, p)
		}
	}
	return bs
}

// Warm implements sale.MerchantService. It makes the calls that buyers make.
func (m *merchants) Warm(ctx context.Context, merchant, id string) error {
	row, err := m.Sale(ctx, merchant, id)
	if err != nil {
		return err
	}
	if problems := m.check(ctx, row); row.State == sale.Drafted && len(blocking(problems)) > 0 {
		return fmt.Errorf("shop: warm: %w: %s", sale.ErrConflict, strings.Join(blocking(problems), "; "))
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	epoch := max(1, row.Epoch)
	_, err = m.inventory.Status(ctx, id, epoch, "warm-up")
	if err == nil || errors.Is(err, sale.ErrStale) {
		_, err = m.inventory.Next(ctx, id, epoch, m.worker+"-warm", 1, 0)
		if row.State != sale.Drafted {
			err = nil // a live sale is warm already, and order writers read its stream
		}
	}
	if err != nil && !errors.Is(err, sale.ErrStale) {
		return wrap("warm", err)
	}
	if _, err := m.ledger.Totals(ctx, id); err != nil {
		return wrap("warm", err)
	}
	return nil
}

// Expose implements sale.MerchantService. If the inventory cannot be opened now, the
// inventorySync of the sale opens it.
func (m *merchants) Expose(ctx context.Context, merchant, id string) (sale.Sale, error) {
	row, err := m.Sale(ctx, merchant, id)
	if err != nil {
		return sale.Sale{}, err
	}
	if problems := blocking(m.check(ctx, row)); len(problems) > 0 {
		return sale.Sale{}, fmt.Errorf("shop: expose: %w: %s", sale.ErrConflict, strings.Join(problems, "; "))
	}
	call, cancel := m.callToEnd(ctx)
	defer cancel()
	row, err = m.ledger.SetState(call, merchant, id, sale.Exposed, "", m.clock(), sale.Drafted)
	if err != nil {
		return sale.Sale{}, wrap("expose", err)
	}
	state, err := m.ledger.InitialState(call, id)
	if err == nil {
		err = m.inventory.Open(call, state)
	}
	if err != nil {
		m.log.Warn("cannot open inventory, will retry", "sale", id, "error", err)
	}
	m.changed(call, row)
	return row, nil
}

// changed applies a merchant's change in this process at once. Other processes apply it at
// their next refresh.
func (m *merchants) changed(ctx context.Context, row sale.Sale) {
	l := m.catalog.set(row)
	if l == nil {
		return
	}
	if c, err := m.count(ctx, row.ID, row.Epoch); err == nil {
		l.setCounts(row.Epoch, c, true, m.clock())
	}
	signal(l.syncNow)
}

// Pause implements sale.MerchantService.
func (m *merchants) Pause(ctx context.Context, merchant, id string) (sale.Sale, error) {
	return m.setState(ctx, merchant, id, sale.Paused, sale.ByMerchant, sale.Exposed)
}

// Resume implements sale.MerchantService.
func (m *merchants) Resume(ctx context.Context, merchant, id string) (sale.Sale, error) {
	return m.setState(ctx, merchant, id, sale.Exposed, "", sale.Paused)
}

// End implements sale.MerchantService.
func (m *merchants) End(ctx context.Context, merchant, id string, kill bool) (sale.Sale, error) {
	reason := sale.ByMerchant
	if kill {
		reason = sale.Killed
	}
	return m.setState(ctx, merchant, id, sale.Ended, reason, sale.Exposed, sale.Paused)
}

// setState changes a sale in the ledger and then in the inventory, which all processes call.
// While the inventory is unavailable, every process refuses by the state in the ledger.
func (m *merchants) setState(ctx context.Context, merchant, id string, to sale.State, reason string, from ...sale.State) (sale.Sale, error) {
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return sale.Sale{}, err
	}
	call, cancel := m.callToEnd(ctx)
	defer cancel()
	row, err := m.ledger.SetState(call, merchant, id, to, reason, m.clock(), from...)
	if err != nil {
		return sale.Sale{}, wrap(string(to), err)
	}
	if l := m.catalog.get(id); l != nil {
		l.setSale(row)
	}
	err = m.inventory.SetPaused(call, id, row.Epoch, row.State != sale.Exposed)
	if err != nil && !errors.Is(err, sale.ErrStale) {
		m.log.Warn("cannot pause or resume inventory, will retry", "sale", id, "error", err)
	}
	m.changed(call, row)
	return row, nil
}

// AddStock implements sale.MerchantService.
func (m *merchants) AddStock(ctx context.Context, merchant, id, key string, units int64) (sale.Sale, error) {
	if key == "" || !sale.IsKey(key) {
		return sale.Sale{}, badKey(key)
	}
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return sale.Sale{}, err
	}
	call, cancel := m.callToEnd(ctx)
	defer cancel()
	row, err := m.ledger.AddStock(call, merchant, id, key, units, m.clock())
	if err != nil {
		return sale.Sale{}, wrap("add stock", err)
	}
	m.crash.At(crashpoint.StockLedger)
	err = m.inventory.SetStock(call, id, row.Epoch, row.Stock)
	if err != nil && !errors.Is(err, sale.ErrInvalid) {
		m.log.Warn("cannot add units to inventory, will retry", "sale", id, "error", err)
	}
	m.crash.At(crashpoint.StockInventory)
	m.changed(call, row)
	return row, nil
}
