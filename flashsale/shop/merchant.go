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

// own is a sale of the merchant's. Any other is not found.
func (s *Shop) own(ctx context.Context, merchant, id string) (sale.Sale, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	row, err := s.Ledger.Sale(ctx, id)
	if err == nil && row.Merchant != merchant {
		err = sale.ErrNotFound
	}
	if err != nil {
		return sale.Sale{}, away("sale", err)
	}
	return row, nil
}

// Create implements sale.MerchantService.
func (s *Shop) Create(ctx context.Context, merchant string, d sale.Draft) (sale.Sale, error) {
	if err := checkDraft(d); err != nil {
		return sale.Sale{}, err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	row, err := s.Ledger.Create(ctx, merchant, d, s.Clock())
	if err != nil {
		return sale.Sale{}, away("create", err)
	}
	return row, nil
}

// Edit implements sale.MerchantService.
func (s *Shop) Edit(ctx context.Context, merchant, id string, version int64, d sale.Draft) (sale.Sale, error) {
	if err := checkDraft(d); err != nil {
		return sale.Sale{}, err
	}
	if _, err := s.own(ctx, merchant, id); err != nil {
		return sale.Sale{}, err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	row, err := s.Ledger.Edit(ctx, merchant, id, version, d)
	if err != nil {
		return sale.Sale{}, away("edit", err)
	}
	return row, nil
}

func checkDraft(d sale.Draft) error {
	if err := d.WithDefaults().Validate(); err != nil {
		return fmt.Errorf("shop: draft: %w", err)
	}
	return nil
}

// Mine implements sale.MerchantService.
func (s *Shop) Sales(ctx context.Context, merchant, after string) ([]sale.Sale, error) {
	if merchant == "" {
		return nil, fmt.Errorf("shop: %w: merchant: got none, want a name", sale.ErrInvalid)
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	rows, err := s.Ledger.Sales(ctx, merchant, after)
	if err != nil {
		return nil, away("sales", err)
	}
	return rows, nil
}

// Get implements sale.MerchantService.
func (s *Shop) Sale(ctx context.Context, merchant, id string) (sale.Sale, error) {
	return s.own(ctx, merchant, id)
}

// Check implements sale.MerchantService.
func (s *Shop) Check(ctx context.Context, merchant, id string) ([]string, error) {
	row, err := s.own(ctx, merchant, id)
	if err != nil {
		return nil, err
	}
	return s.check(ctx, row), nil
}

func (s *Shop) check(ctx context.Context, row sale.Sale) []string {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if row.State != sale.Drafted {
		fault("state is %s, want draft", row.State)
	}
	if err := row.Draft.WithDefaults().Validate(); err != nil {
		fault("%v", err)
	}
	now := s.Clock()
	if !row.EndsAt.After(now) {
		fault("ends_at is %s, which is over", row.EndsAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
	if row.StartsAt.Before(now) && row.EndsAt.After(now) {
		fault("starts_at is %s, which is over: the sale would be open at once", row.StartsAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
	if r, err := outOf(weir.Peek, &row, 1); err != nil {
		fault("no admission limit holds headroom %d × stock %d: %v", row.Headroom, row.Stock, err)
	} else if _, err := s.Limits.Do(ctx, r); err != nil {
		fault("the store of limits does not answer: %v", err)
	}
	// A gate that has no state of this sale says so; anything else is an inventory that does not
	// answer, or one that would be in the way.
	if _, err := s.Inventory.Counts(ctx, row.ID, max(1, row.Epoch)); err != nil && !errors.Is(err, sale.ErrStale) {
		fault("the inventory does not answer: %v", err)
	} else if err == nil && row.State == sale.Drafted {
		fault("the inventory has a state of this sale already")
	}
	if err := s.Ledger.Ping(ctx); err != nil {
		fault("the ledger does not answer: %v", err)
	}
	return faults
}

// startsInPast begins the one fault that does not keep a sale from being exposed: a merchant
// may mean it.
const startsInPast = "starts_at is "

// blocking are the faults that keep a sale from being exposed.
func blocking(faults []string) []string {
	var bs []string
	for _, f := range faults {
		if !strings.HasPrefix(f, startsInPast) {
			bs = append(bs, f)
		}
	}
	return bs
}

// Warm implements sale.MerchantService. What is asked here is what buyers will ask.
func (s *Shop) Warm(ctx context.Context, merchant, id string) error {
	row, err := s.own(ctx, merchant, id)
	if err != nil {
		return err
	}
	if faults := s.check(ctx, row); row.State == sale.Drafted && len(blocking(faults)) > 0 {
		return fmt.Errorf("shop: warm: %w: %s", sale.ErrConflict, strings.Join(blocking(faults), "; "))
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	epoch := max(1, row.Epoch)
	_, err = s.Inventory.Status(ctx, id, epoch, "nobody")
	if err == nil || errors.Is(err, sale.ErrStale) {
		_, err = s.Inventory.Next(ctx, id, epoch, s.Worker+"-warm", 1, 0)
		if row.State != sale.Drafted {
			err = nil // one that is live is warm, and its stream is the clerks'
		}
	}
	if err != nil && !errors.Is(err, sale.ErrStale) {
		return away("warm", err)
	}
	if _, err := s.Ledger.Totals(ctx, id); err != nil {
		return away("warm", err)
	}
	return nil
}

// Expose implements sale.MerchantService. A sale that the Ledger has as exposed and whose Inventory
// could not be opened now is opened by its keeper.
func (s *Shop) Expose(ctx context.Context, merchant, id string) (sale.Sale, error) {
	row, err := s.own(ctx, merchant, id)
	if err != nil {
		return sale.Sale{}, err
	}
	if faults := blocking(s.check(ctx, row)); len(faults) > 0 {
		return sale.Sale{}, fmt.Errorf("shop: expose: %w: %s", sale.ErrConflict, strings.Join(faults, "; "))
	}
	ask, cancel := s.inHand(ctx)
	defer cancel()
	row, err = s.Ledger.SetState(ask, merchant, id, sale.Exposed, "", s.Clock(), sale.Drafted)
	if err != nil {
		return sale.Sale{}, away("expose", err)
	}
	o, err := s.Ledger.InitialState(ask, id)
	if err == nil {
		err = s.Inventory.Open(ask, o)
	}
	if err != nil {
		s.Log.Warn("inventory not opened; it is tried again", "sale", id, "error", err)
	}
	s.noted(ask, row)
	return row, nil
}

// noted makes what a merchant has changed known here at once; other shops see it at their
// next look.
func (s *Shop) noted(ctx context.Context, row sale.Sale) {
	l := s.keepSale(row)
	if l == nil {
		return
	}
	if c, err := s.count(ctx, row.ID, row.Epoch); err == nil {
		l.setCounts(row.Epoch, c, true, s.Clock())
	}
	kick(l.kept)
	kick(l.wake)
}

// Pause implements sale.MerchantService.
func (s *Shop) Pause(ctx context.Context, merchant, id string) (sale.Sale, error) {
	return s.setState(ctx, merchant, id, sale.Paused, sale.ByMerchant, sale.Exposed)
}

// Resume implements sale.MerchantService.
func (s *Shop) Resume(ctx context.Context, merchant, id string) (sale.Sale, error) {
	return s.setState(ctx, merchant, id, sale.Exposed, "", sale.Paused)
}

// End implements sale.MerchantService.
func (s *Shop) End(ctx context.Context, merchant, id string, kill bool) (sale.Sale, error) {
	why := sale.ByMerchant
	if kill {
		why = sale.Killed
	}
	return s.setState(ctx, merchant, id, sale.Ended, why, sale.Exposed, sale.Paused)
}

// setState changes a sale in the Ledger, and then the Inventory, which every shop asks. If the
// Inventory does not answer now, every shop refuses by what it knows of the Ledger.
func (s *Shop) setState(ctx context.Context, merchant, id string, to sale.State, why string, from ...sale.State) (sale.Sale, error) {
	if _, err := s.own(ctx, merchant, id); err != nil {
		return sale.Sale{}, err
	}
	ask, cancel := s.inHand(ctx)
	defer cancel()
	row, err := s.Ledger.SetState(ask, merchant, id, to, why, s.Clock(), from...)
	if err != nil {
		return sale.Sale{}, away(string(to), err)
	}
	if l := s.live(id); l != nil {
		l.setSale(row)
	}
	err = s.Inventory.SetPaused(ask, id, row.Epoch, row.State != sale.Exposed)
	if err != nil && !errors.Is(err, sale.ErrStale) {
		s.Log.Warn("inventory not paused or resumed; it is tried again", "sale", id, "error", err)
	}
	s.noted(ask, row)
	return row, nil
}

// AddStock implements sale.MerchantService.
func (s *Shop) AddStock(ctx context.Context, merchant, id, key string, units int64) (sale.Sale, error) {
	if key == "" || !isKey(key) {
		return sale.Sale{}, fmt.Errorf("shop: %w: Idempotency-Key: got %d bytes, want 1 to 64 printable characters", sale.ErrInvalid, len(key))
	}
	if _, err := s.own(ctx, merchant, id); err != nil {
		return sale.Sale{}, err
	}
	ask, cancel := s.inHand(ctx)
	defer cancel()
	row, err := s.Ledger.AddStock(ask, merchant, id, key, units, s.Clock())
	if err != nil {
		return sale.Sale{}, away("add stock", err)
	}
	s.Crash.At(crashpoint.StockLedger)
	err = s.Inventory.SetStock(ask, id, row.Epoch, row.Stock)
	if err != nil && !errors.Is(err, sale.ErrInvalid) {
		s.Log.Warn("units not added to the inventory; it is tried again", "sale", id, "error", err)
	}
	s.Crash.At(crashpoint.StockInventory)
	s.noted(ask, row)
	return row, nil
}

// Logged implements sale.MerchantService. Without a sale it is what the merchant did.
func (s *Shop) AuditLog(ctx context.Context, merchant, id string) ([]sale.AuditEntry, error) {
	if id != "" {
		if _, err := s.own(ctx, merchant, id); err != nil {
			return nil, err
		}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	lines, err := s.Ledger.AuditLog(ctx, id)
	if err != nil {
		return nil, away("log", err)
	}
	if id != "" {
		return lines, nil
	}
	var mine []sale.AuditEntry
	for _, l := range lines {
		if l.Actor == merchant {
			mine = append(mine, l)
		}
	}
	return mine, nil
}
