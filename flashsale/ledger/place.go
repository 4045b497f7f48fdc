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
	"github.com/floodweir/weir/flashsale/sale"
)

// A line is a reservation as the database is told of it, and what is to become of it.
type line struct {
	Pos    int             `json:"pos"`
	ID     string          `json:"id"`
	Sale   string          `json:"sale"`
	Epoch  int64           `json:"epoch"`
	User   string          `json:"usr"`
	Slot   int             `json:"slot"`
	Ticket string          `json:"ticket"`
	Key    string          `json:"key"`
	At     int64           `json:"at"`
	PayBy  int64           `json:"pay_by"`
	State  sale.OrderState `json:"state"`
	Price  int64           `json:"price"`
	Note   string          `json:"note"`
}

// lineRows is the table of lines.
const lineRows = "{rows:pos int, id text, sale text, epoch bigint, usr text, slot int, ticket text, key text, at bigint, pay_by bigint, state text, price bigint, note text}"

// Why a reservation is rejected.
const (
	noUnit     = "no_unit"     // every unit is sold
	noSlot     = "no_slot"     // a user of this sale has no such slot
	slotTaken  = "slot_taken"  // the user's slot has an order that is pending or paid
	ticketUsed = "ticket_used" // the ticket has an order
)

// Place makes reservations orders, in one transaction with as many statements for a
// thousand as for one, and tells of each in their order what became of it.
//
// If one of them cannot be one (it is malformed, or of a sale or an epoch that is not
// known), the error wraps sale.ErrInvalid or sale.ErrNotFound and names it; then the others
// are placed, each in a transaction of its own, and those that failed have no State.
func (l *Ledger) CreateOrders(ctx context.Context, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	if len(rs) > 1000 {
		return nil, l.fail("place", fmt.Errorf("%w: %d reservations, want up to 1000", sale.ErrInvalid, len(rs)))
	}
	placed, err := l.place(ctx, rs, now)
	if err == nil || !ofOne(err) {
		return placed, err
	}
	if len(rs) == 1 {
		return placed, itsOwn(err)
	}
	placed = make([]sale.OrderResult, len(rs))
	var errs []error
	for i := range rs {
		one, err := l.place(ctx, rs[i:i+1], now)
		switch {
		case err == nil:
			placed[i] = one[0]
		case ofOne(err):
			errs = append(errs, itsOwn(err))
		default:
			return placed, err
		}
	}
	return placed, errors.Join(errs...)
}

// ofOne says whether a batch failed for the sake of one of its reservations.
func ofOne(err error) bool {
	return errors.Is(err, sale.ErrInvalid) || errors.Is(err, sale.ErrNotFound) || kindOf(err) == data
}

// itsOwn says of an error of one reservation that it is for its own sake, also where the
// database has said so.
func itsOwn(err error) error {
	if errors.Is(err, sale.ErrInvalid) || errors.Is(err, sale.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", sale.ErrInvalid, err)
}

func (l *Ledger) place(ctx context.Context, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	lines := make([]line, len(rs))
	for i, r := range rs {
		if err := placeable(r); err != nil {
			return nil, l.fail("place", err)
		}
		lines[i] = lineOf(i, r)
	}
	// Most batches meet no row: looking for every kind costs as much as writing all. What is
	// not looked for is undone by a constraint, and then looked for.
	var placed []sale.OrderResult
	anyNew, err := false, error(nil)
	for _, looks := range []bool{false, true} {
		err = l.change(ctx, func(x *tx) (err error) {
			placed, anyNew, err = l.placeIn(x, lines, looks, now)
			return err
		})
		if !errors.Is(err, errLook) && !isThere(err) {
			break
		}
	}
	if err != nil {
		return nil, l.fail("place", err)
	}
	if anyNew {
		l.crash.At(crashpoint.PlaceCommitted)
	}
	return placed, nil
}

// errLook says that what becomes of a batch depends on what it meets.
var errLook = errors.New("the rows in the way have to be looked for")

// placeIn makes lines orders, and reports whether any is new. Without looks it takes it that
// they meet no row.
func (l *Ledger) placeIn(x *tx, lines []line, looks bool, now time.Time) ([]sale.OrderResult, bool, error) {
	sales, err := lockSales(x, lines)
	if err != nil {
		return nil, false, err
	}
	var seen []sight
	if looks {
		seen, err = lookFor(x, lines)
	} else {
		err = noneThere(x, lines)
	}
	if err != nil {
		return nil, false, err
	}
	placed, fresh, err := decide(lines, sales, seen)
	if err != nil {
		return nil, false, err
	}
	if !looks && slices.ContainsFunc(fresh, func(n line) bool { return n.State == sale.Rejected }) {
		return nil, false, errLook
	}
	if len(fresh) == 0 {
		return placed, false, nil
	}
	return placed, true, l.insert(x, fresh, now)
}

func lineOf(i int, r sale.Reservation) line {
	return line{
		Pos: i, ID: r.ID, Sale: r.Sale, Epoch: r.Epoch, User: r.User, Slot: r.Slot, Ticket: r.Ticket, Key: r.Key,
		At: milli(r.At), PayBy: milli(r.PayBy),
	}
}

// placeable says what is wrong with a reservation that nobody could have made.
func placeable(r sale.Reservation) error {
	err := errors.Join(word("id", r.ID, 16, 64), word("sale", r.Sale, 1, 64), name("user", r.User), name("ticket", r.Ticket))
	if r.Key != "" {
		err = errors.Join(err, name("key", r.Key))
	}
	if y := r.At.Year(); y < 1971 || y > 9998 {
		err = errors.Join(err, fmt.Errorf("%w: at = %v, want a time", sale.ErrInvalid, r.At))
	}
	if r.PayBy.Before(r.At) || r.PayBy.Sub(r.At) > 24*time.Hour {
		err = errors.Join(err, fmt.Errorf("%w: pay_by = %v, want a time from at (%v) on, within a day", sale.ErrInvalid, r.PayBy, r.At))
	}
	if err != nil {
		return fmt.Errorf("reservation %s: %w", show(r.ID), err)
	}
	return nil
}

// A room is what a batch may still use of a sale, whose row is held.
type room struct {
	free, price, epoch int64
	perUser            int
}

// lockSales holds the rows of the sales of a batch, in the order of their IDs.
func lockSales(x *tx, lines []line) (map[string]*room, error) {
	sales := map[string]*room{}
	for _, n := range lines {
		sales[n.Sale] = nil
	}
	ids := slices.Sorted(maps.Keys(sales))
	clear(sales)
	_, err := list(x, func(scan func(...any) error) (struct{}, error) {
		var id string
		var r room
		err := scan(&id, &r.free, &r.price, &r.epoch, &r.perUser)
		sales[id] = &r
		return struct{}{}, err
	}, "SELECT id, stock - sold, price, epoch, per_user FROM sales WHERE id {among:1} ORDER BY id {lock:sales}", x.l.among(ids))
	return sales, err
}

// A sight is what stands in the way of a line.
type sight struct {
	line         int
	sale, user   string // of its own reservation, if there is one
	state        sale.OrderState
	ticket, slot bool // there is an order of its ticket, one that holds its slot
}

// lookFor finds what a batch meets. The rows of its sales are held: nobody else adds an
// order of theirs until this is committed. A row that someone is just ending is still seen
// as it was. (What is looked up in the SELECT list is looked up by its index always: of a
// table that was never analyzed, PostgreSQL takes the orders of a state for a few, and would
// read all of them.)
func lookFor(x *tx, lines []line) ([]sight, error) {
	doc, err := json.Marshal(lines)
	if err != nil {
		return nil, err
	}
	return list(x, func(scan func(...any) error) (sight, error) {
		var s sight
		err := scan(&s.line, &s.sale, &s.user, &s.state, &s.ticket, &s.slot)
		return s, err
	}, `SELECT r.pos, coalesce(o.sale, ''), coalesce(o.usr, ''), coalesce(o.state, ''),
		(SELECT t.reservation FROM orders t WHERE t.sale = r.sale AND t.ticket = r.ticket AND t.state IN ('pending_pay', 'paid', 'expired', 'cancelled') LIMIT 1) IS NOT NULL,
		(SELECT t.reservation FROM orders t WHERE t.sale = r.sale AND t.usr = r.usr AND t.slot = r.slot AND t.state IN ('pending_pay', 'paid') LIMIT 1) IS NOT NULL
		FROM `+lineRows+` LEFT JOIN orders o ON o.reservation = r.id`, string(doc))
}

// noneThere is errLook if one of the lines was placed before. (A constraint would say so too,
// but not before who is changing that order has ended, who may wait for its sale.)
func noneThere(x *tx, lines []line) error {
	all := make([]string, len(lines))
	for i, n := range lines {
		all[i] = n.ID
	}
	var n int
	err := x.row("SELECT count(*) FROM orders WHERE reservation {among:1}", x.l.among(all)).Scan(&n)
	if err == nil && n > 0 {
		err = errLook
	}
	return err
}

// decide says what becomes of every line, and which of them are new.
func decide(lines []line, sales map[string]*room, seen []sight) ([]sale.OrderResult, []line, error) {
	type key struct {
		sale, user string
		slot       int
	}
	known, tickets, slots := map[string]sight{}, map[[2]string]bool{}, map[key]bool{}
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
	placed, fresh := make([]sale.OrderResult, len(lines)), []line(nil)
	for i := range lines {
		n := lines[i]
		s, ok := sales[n.Sale]
		if !ok {
			return nil, nil, fmt.Errorf("reservation %s: sale %s: %w", n.ID, show(n.Sale), sale.ErrNotFound)
		}
		if k, ok := known[n.ID]; ok {
			if k.sale != n.Sale || k.user != n.User {
				return nil, nil, fmt.Errorf("%w: reservation %s is one of another user or sale", sale.ErrInvalid, n.ID)
			}
			placed[i] = sale.OrderResult{State: k.state}
			continue
		}
		if n.Epoch < 1 || n.Epoch > s.epoch {
			return nil, nil, fmt.Errorf("%w: reservation %s: epoch = %d, want 1 to %d", sale.ErrInvalid, n.ID, n.Epoch, s.epoch)
		}
		slot, ticket := key{n.Sale, n.User, n.Slot}, [2]string{n.Sale, n.Ticket}
		n.State, n.Price = sale.Rejected, s.price
		switch {
		case n.Slot < 1 || n.Slot > s.perUser:
			n.Note = noSlot
		case tickets[ticket]:
			n.Note = ticketUsed
		case slots[slot]:
			n.Note = slotTaken
		case s.free < 1:
			n.Note = noUnit
		default:
			n.State = sale.PendingPay
			s.free--
			tickets[ticket], slots[slot] = true, true
		}
		known[n.ID] = sight{sale: n.Sale, user: n.User, state: n.State}
		placed[i] = sale.OrderResult{State: n.State, New: true}
		fresh = append(fresh, n)
	}
	return placed, fresh, nil
}

// insert writes new lines, and counts those that are orders.
func (l *Ledger) insert(x *tx, fresh []line, now time.Time) error {
	doc, err := json.Marshal(fresh)
	if err != nil {
		return err
	}
	if l.d.postgres {
		// The guards of what is inserted are statements too, asked for every row. A plan of
		// each is enough: they read by a key.
		if _, err := x.exec("SET LOCAL plan_cache_mode = force_generic_plan"); err != nil {
			return err
		}
	}
	if _, err := x.exec(`INSERT INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, note)
		SELECT id, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, $2, $2, note FROM `+lineRows, string(doc), milli(now)); err != nil {
		return err
	}
	if _, err := x.exec(`INSERT INTO movements (sale, kind, units, reservation, at)
		SELECT sale, 'sold', -1, id, $2 FROM `+lineRows+` WHERE state = 'pending_pay'`, string(doc), milli(now)); err != nil {
		return err
	}
	l.crash.At(crashpoint.PlaceInserted)
	sold := map[string]int64{}
	for _, n := range fresh {
		if n.State == sale.PendingPay {
			sold[n.Sale]++
		}
	}
	for _, id := range sorted(sold) {
		if _, err := x.exec("UPDATE sales SET sold = sold + $2 WHERE id = $1", id, sold[id]); err != nil {
			return err
		}
	}
	l.crash.At(crashpoint.PlaceCounted)
	return nil
}

// Lose notes that an acknowledged reservation is lost. Said again it changes nothing; of one
// that was rejected neither. Only its ID, sale and user have to be known.
func (l *Ledger) MarkLost(ctx context.Context, r sale.Reservation, now time.Time) error {
	if err := errors.Join(word("id", r.ID, 16, 64), word("sale", r.Sale, 1, 64), name("user", r.User)); err != nil {
		return l.fail("lose", err)
	}
	n := lineOf(0, r)
	n.Ticket, n.Key, n.Slot = clean(n.Ticket), clean(n.Key), max(0, min(n.Slot, 10))
	return l.write(ctx, "lose", "", func(x *tx) error {
		k, err := load(x, r.Sale, true) // Place holds it too: of both, one is first
		if err != nil {
			return err
		}
		switch o, err := order(x, r.ID, ""); {
		case errors.Is(err, sale.ErrNotFound):
		case err != nil:
			return err
		case o.State != sale.Lost && o.State != sale.Rejected:
			return fmt.Errorf("%w: reservation %s is an order, %s", sale.ErrConflict, o.ID, o.State)
		default:
			return nil
		}
		_, err = x.exec(`INSERT INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'lost', $10, $11, $11)`,
			n.ID, n.Sale, n.Epoch, n.User, n.Slot, n.Ticket, n.Key, n.At, n.PayBy, k.Price, milli(now))
		return err
	})
}

func sorted(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

// ids is a table of IDs.
func ids(all []string) (string, error) {
	type id struct {
		ID string `json:"id"`
	}
	rows := make([]id, len(all))
	for i, s := range all {
		rows[i].ID = known(s)
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
