package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// The reasons why a reservation is rejected.
const (
	noSlot     = "no_slot"     // a user of this sale has no such slot
	slotTaken  = "slot_taken"  // the user's slot has an order that is pending or paid
	ticketUsed = "ticket_used" // the ticket has an order
	tooMany    = "too_many"    // the order, or its user with it, would have more units than allowed
)

// CreateOrders implements sale.Ledger. It uses one transaction, and as many statements for a
// thousand reservations as for one.
func (l *orders) CreateOrders(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	if len(rs) > 1000 {
		return nil, fail("place", fmt.Errorf("%w: reservations: got %d, want up to 1000", sale.ErrInvalid, len(rs)))
	}
	p := placement{crash: l.crash, epoch: epoch, now: now, rows: make([]orderRow, len(rs))}
	for i, r := range rs {
		if err := validateReservation(r); err != nil {
			return nil, fail("place", err)
		}
		p.rows[i] = rowOf(i, r)
	}
	// Most batches conflict with no existing row, and looking for conflicts costs as much as
	// writing. So the first attempt does not look: a constraint undoes it, and the second looks.
	err := l.db.Do(ctx, database.WriteKeyed, p.write)
	if errors.Is(err, errNeedLookup) || database.IsDuplicate(err) {
		p.looks = true
		err = l.db.Do(ctx, database.Write, p.write)
	}
	switch {
	case database.IsRejected(err):
		return nil, fail("place", fmt.Errorf("%w: %w", sale.ErrInvalid, err))
	case err != nil:
		return nil, fail("place", err)
	case p.anyNew:
		l.crash.At(crashpoint.PlaceCommitted)
	}
	return p.results, nil
}

// errNeedLookup means that the outcome depends on existing rows.
var errNeedLookup = errors.New("existing rows have to be looked up")

// placement is one call of CreateOrders.
type placement struct {
	crash   crashpoint.Hook
	epoch   int64 // of the stream
	now     time.Time
	rows    []orderRow
	looks   bool // otherwise it assumes that no existing row conflicts
	results []sale.OrderResult
	anyNew  bool
}

// write creates the orders of the rows in a transaction.
func (p *placement) write(x *database.Tx) error {
	sales, err := lockSales(x, p.rows)
	if err != nil {
		return err
	}
	var seen []existing
	if p.looks {
		seen, err = findExisting(x, p.rows)
	} else {
		err = noneExists(x, p.rows)
	}
	if err != nil {
		return err
	}
	held, err := heldUnits(x, sales, p.rows)
	if err != nil {
		return err
	}
	results, fresh, err := p.decide(sales, seen, held)
	if err != nil {
		return err
	}
	if !p.looks && slices.ContainsFunc(results, func(r sale.OrderResult) bool {
		return r.State == sale.Rejected || r.State == sale.Reserved && !r.Fenced
	}) {
		return errNeedLookup
	}
	if p.results, p.anyNew = results, len(fresh) > 0; p.anyNew {
		return p.insert(x, fresh)
	}
	return nil
}

// validateReservation returns an error if no inventory could have made r.
func validateReservation(r sale.Reservation) error {
	err := errors.Join(validateID("id", r.ID, 16, 64), validateID("sale", r.Sale, 1, 64), validateName("user", r.User), validateName("ticket", r.Ticket))
	if r.Key != "" {
		err = errors.Join(err, validateName("key", r.Key))
	}
	if y := r.At.Year(); y < 1971 || y > 9998 {
		err = errors.Join(err, fmt.Errorf("%w: at: got %v, want a time", sale.ErrInvalid, r.At))
	}
	if r.Quantity < 0 || r.Quantity > sale.MaxQuantity {
		err = errors.Join(err, fmt.Errorf("%w: quantity: got %d, want 1 to %d", sale.ErrInvalid, r.Quantity, sale.MaxQuantity))
	}
	if r.PayBy.Before(r.At) || r.PayBy.Sub(r.At) > 24*time.Hour {
		err = errors.Join(err, fmt.Errorf("%w: pay_by: got %v, want a time within a day after at (%v)", sale.ErrInvalid, r.PayBy, r.At))
	}
	if err != nil {
		return fmt.Errorf("reservation %s: %w", quote(r.ID), err)
	}
	return nil
}

// capacity holds the units and slots that are left of a sale, whose row is locked.
type capacity struct {
	free, price, epoch   int64
	perUser, maxQuantity int64
}

// lockSales locks the rows of the sales of a batch, in the order of their IDs.
func lockSales(x *database.Tx, lines []orderRow) (map[string]*capacity, error) {
	sales := map[string]*capacity{}
	for _, n := range lines {
		sales[n.Sale] = nil
	}
	ids := slices.Sorted(maps.Keys(sales))
	clear(sales)
	_, err := database.List(x, func(scan func(...any) error) (struct{}, error) {
		var id string
		var r capacity
		err := scan(&id, &r.free, &r.price, &r.epoch, &r.perUser, &r.maxQuantity)
		sales[id] = &r
		return struct{}{}, err
	}, "SELECT id, stock - sold, price, epoch, per_user, max_quantity FROM sales WHERE id {among:1} ORDER BY id {lock:sales}", x.Among(ids))
	return sales, err
}

// decide sets the outcome of every row and returns the new rows. The rows of the sales are
// locked, so that no epoch begins before the orders of this one are committed.
func (p *placement) decide(sales map[string]*capacity, seen []existing, held map[buyer]int64) ([]sale.OrderResult, []orderRow, error) {
	lines := p.rows
	type key struct {
		sale, user string
		slot       int
	}
	known, tickets, slots := map[string]existing{}, map[[2]string]bool{}, map[key]bool{}
	for _, s := range seen {
		n := lines[s.line]
		if s.state != "" {
			known[n.ID] = s
		}
		if s.ticket {
			tickets[[2]string{n.Sale, n.Ticket}] = true
		}
		if s.slot {
			slots[key{n.Sale, n.User, n.Slot}] = true
		}
	}
	placed, fresh := make([]sale.OrderResult, len(lines)), []orderRow(nil)
	for i := range lines {
		n := lines[i]
		s, ok := sales[n.Sale]
		if !ok {
			return nil, nil, fmt.Errorf("reservation %s: sale %s: %w", n.ID, quote(n.Sale), sale.ErrNotFound)
		}
		if k, ok := known[n.ID]; ok {
			if k.sale != n.Sale || k.user != n.User {
				return nil, nil, fmt.Errorf("%w: reservation %s belongs to another user or sale", sale.ErrInvalid, n.ID)
			}
			placed[i] = sale.OrderResult{State: k.state}
			continue
		}
		if n.Epoch < 1 || n.Epoch > p.epoch || p.epoch > s.epoch {
			return nil, nil, fmt.Errorf("%w: reservation %s: epoch: got %d in the stream of %d, want 1 to %d", sale.ErrInvalid, n.ID, n.Epoch, p.epoch, s.epoch)
		}
		if p.epoch < s.epoch {
			placed[i] = sale.OrderResult{State: sale.Reserved, Fenced: true}
			continue
		}
		slot, ticket, by := key{n.Sale, n.User, n.Slot}, [2]string{n.Sale, n.Ticket}, buyer{n.Sale, n.User}
		n.State, n.Price = sale.Rejected, s.price*n.Quantity
		switch {
		case n.Slot < 1 || int64(n.Slot) > s.perUser:
			n.Note = noSlot
		case n.Quantity > s.maxQuantity:
			n.Note = tooMany
		case tickets[ticket]:
			n.Note = ticketUsed
		case slots[slot]:
			n.Note = slotTaken
		case held[by]+n.Quantity > s.perUser:
			n.Note = tooMany
		case s.free < n.Quantity:
			placed[i] = sale.OrderResult{State: sale.Reserved}
			continue
		default:
			n.State = sale.PendingPay
			s.free -= n.Quantity
			held[by] += n.Quantity
			tickets[ticket], slots[slot] = true, true
		}
		known[n.ID] = existing{sale: n.Sale, user: n.User, state: n.State}
		placed[i] = sale.OrderResult{State: n.State, New: true}
		fresh = append(fresh, n)
	}
	return placed, fresh, nil
}

// insert inserts new rows and counts their orders.
func (p *placement) insert(x *database.Tx, fresh []orderRow) error {
	if p.looks && x.IsPostgres() {
		// The foreign key checks are statements too, run for every row. A generic plan
		// suffices, because they read by key.
		if _, err := x.Exec("SET LOCAL plan_cache_mode = force_generic_plan"); err != nil {
			return err
		}
	}
	rows, args := x.Rows(2, columnsOf(fresh)...)
	if _, err := x.Exec(`INSERT INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, note, quantity, held, spent)
		SELECT id, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, $1, $1, note, quantity,
		CASE WHEN state = 'pending_pay' THEN slot END, CASE WHEN state = 'pending_pay' THEN 1 ELSE 0 END FROM `+rows, append([]any{millis(p.now)}, args...)...); err != nil {
		return err
	}
	pending := slices.DeleteFunc(slices.Clone(fresh), func(n orderRow) bool { return n.State != sale.PendingPay })
	rows, args = x.Rows(2, columnsOf(pending)[:3]...)
	if _, err := x.Exec("INSERT INTO movements (sale, kind, units, reservation, at) SELECT sale, 'sold', -quantity, id, $1 FROM "+rows,
		append([]any{millis(p.now)}, args...)...); err != nil {
		return err
	}
	p.crash.At(crashpoint.PlaceInserted)
	sold := map[string]int64{}
	for _, n := range fresh {
		if n.State == sale.PendingPay {
			sold[n.Sale] += n.Quantity
		}
	}
	for _, id := range sorted(sold) {
		if _, err := x.Exec("UPDATE sales SET sold = sold + $2, placed = placed + $2 WHERE id = $1", id, sold[id]); err != nil {
			return err
		}
	}
	// Money may have arrived before the order.
	all := make([]string, len(fresh))
	for i, n := range fresh {
		all[i] = n.ID
	}
	if err := outbox.AppendOrders(x, webhook.OrderReserved, ordersOf(fresh, sale.PendingPay), p.now); err != nil {
		return err
	}
	if _, err := applyWaiting(x, p.crash, all, p.now); err != nil {
		return err
	}
	p.crash.At(crashpoint.PlaceCounted)
	return nil
}

// ordersOf returns the orders of the rows in a state.
func ordersOf(rows []orderRow, state sale.OrderState) []sale.Order {
	var all []sale.Order
	for _, n := range rows {
		if n.State == state {
			all = append(all, sale.Order{
				Reservation: sale.Reservation{ID: n.ID, Sale: n.Sale, User: n.User, Slot: n.Slot, At: database.TimeOf(n.At), PayBy: database.TimeOf(n.PayBy), Quantity: int(n.Quantity)},
				State:       state, Price: n.Price,
			})
		}
	}
	return all
}

// MarkLost implements sale.Ledger. It changes nothing for a lost or rejected reservation. It
// needs only the ID, the sale and the user.
func (l *orders) MarkLost(ctx context.Context, r sale.Reservation, now time.Time) error {
	if err := errors.Join(validateID("id", r.ID, 16, 64), validateID("sale", r.Sale, 1, 64), validateName("user", r.User)); err != nil {
		return fail("lose", err)
	}
	n := rowOf(0, r)
	n.Ticket, n.Key, n.Slot = storableText(n.Ticket), storableText(n.Key), max(0, min(n.Slot, sale.MaxQuantity))
	n.Quantity = min(n.Quantity, sale.MaxQuantity)
	return fail("lose", l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		k, err := load(x, r.Sale, true) // CreateOrders locks it too, so that one of the two is first
		if err != nil {
			return err
		}
		switch o, err := order(x, r.ID, ""); {
		case errors.Is(err, sale.ErrNotFound):
		case err != nil:
			return err
		case o.State != sale.Lost && o.State != sale.Rejected:
			return fmt.Errorf("%w: reservation %s has an order, which is %s", sale.ErrConflict, o.ID, o.State)
		default:
			return nil
		}
		_, err = x.Exec(`INSERT INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, quantity, spent)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'lost', $10, $11, $11, $12, 0)`,
			n.ID, n.Sale, n.Epoch, n.User, n.Slot, n.Ticket, n.Key, n.At, n.PayBy, k.Price*n.Quantity, millis(now), n.Quantity)
		if err != nil {
			return err
		}
		n.State, n.Price = sale.Lost, k.Price*n.Quantity
		return outbox.AppendOrders(x, webhook.OrderLost, ordersOf([]orderRow{n}, sale.Lost), now)
	}))
}

func sorted(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

// ids is a table of IDs.
func ids(all []string) (string, error) {
	type id struct {
		ID string `json:"id"`
	}
	rows := make([]id, len(all))
	for i, s := range all {
		rows[i].ID = database.Storable(s)
	}
	doc, err := json.Marshal(rows)
	return string(doc), err
}

func idsOf(orders []sale.Order) (string, error) {
	all := make([]string, len(orders))
	for i := range orders {
		all[i] = orders[i].ID
	}
	return ids(all)
}
