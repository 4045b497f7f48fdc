package shop

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Dashboard implements sale.MerchantService.
func (m *merchants) Dashboard(ctx context.Context, merchant, id string) (sale.Dashboard, error) {
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return sale.Dashboard{}, err
	}
	call, cancel := m.call(ctx)
	defer cancel()
	t, err := m.ledger.Totals(call, id)
	if err != nil {
		return sale.Dashboard{}, wrap("totals", err)
	}
	p, l := m.catalog.ended(t.Sale), m.catalog.get(id)
	if l != nil {
		p = l.snapshot.Load()
	}
	d := sale.Dashboard{View: p.view(m.clock()), Totals: t, Admitted: m.stats.admitted.Load(),
		DrainRate: m.admission.rate.perSecond(), Workers: m.workers}
	if m.refused != nil {
		d.Layers = m.refused()
	} else {
		d.Layers = m.stats.refused()
	}
	if p.counted {
		d.Counts = p.counts
	}
	if l != nil && d.Counts.Backlog > 0 {
		d.Lag = l.lag(p.now(m.clock()))
	}
	if m.curves != nil {
		if d.Curves, err = m.curves.Points(call, id); err != nil {
			return sale.Dashboard{}, wrap("curves", err)
		}
	}
	return d, nil
}

// RecentOrders implements sale.MerchantService.
func (m *merchants) RecentOrders(ctx context.Context, merchant, id, after string) ([]sale.Order, error) {
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return nil, err
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	orders, err := m.ledger.RecentOrders(ctx, id, after)
	if err != nil {
		return nil, wrap("recent orders", err)
	}
	return orders, nil
}

// CancelOrder implements sale.MerchantService.
func (m *merchants) CancelOrder(ctx context.Context, merchant, id, reservation, reason string) (sale.Order, error) {
	call, cancel := m.callToEnd(ctx)
	defer cancel()
	o, err := m.ledger.CancelBy(call, merchant, id, reservation, reason, m.clock())
	if err != nil {
		return sale.Order{}, wrap("cancel", err)
	}
	m.stats.cancelled.Add(1)
	// Return the unit at once; if that fails, the sweeper does.
	if _, err := m.sweeper.returnUnits(call, []sale.Order{o}); err != nil {
		signal(m.sweeper.wake)
	}
	return o, nil
}

// RefundOrder implements sale.MerchantService. The cashier returns the money.
func (m *merchants) RefundOrder(ctx context.Context, merchant, id, reservation, reason string) (sale.Order, error) {
	call, cancel := m.callToEnd(ctx)
	defer cancel()
	o, err := m.ledger.RefundBy(call, merchant, id, reservation, reason, m.clock())
	if err != nil {
		return sale.Order{}, wrap("refund", err)
	}
	if _, err := m.sweeper.returnUnits(call, []sale.Order{o}); err != nil {
		signal(m.sweeper.wake)
	}
	if row, err := m.ledger.Sale(call, id); err == nil {
		m.changed(call, row) // a sale that was sold out has a free unit
	}
	return o, nil
}

// SharedNetworks implements sale.MerchantService.
func (m *merchants) SharedNetworks(ctx context.Context, merchant, id string) ([]sale.SharedNetwork, error) {
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return nil, err
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	networks, err := m.ledger.SharedNetworks(ctx, id)
	if err != nil {
		return nil, wrap("networks", err)
	}
	return networks, nil
}

// AuditLog implements sale.MerchantService.
func (m *merchants) AuditLog(ctx context.Context, merchant, id string) ([]sale.AuditEntry, error) {
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return nil, err
	}
	ctx, cancel := m.call(ctx)
	defer cancel()
	entries, err := m.ledger.AuditLog(ctx, id)
	if err != nil {
		return nil, wrap("audit log", err)
	}
	return entries, nil
}

var reportHeader = []string{"reservation", "user", "slot", "state", "price", "currency",
	"reserved_at", "placed_at", "changed_at", "pay_by", "payment", "refunds_due", "money_returned", "name", "phone", "country", "city", "street", "street2", "postal", "quantity"}

// EachOrder implements sale.MerchantService.
func (m *merchants) EachOrder(ctx context.Context, merchant, id string, row func(sale.Order) error) error {
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return err
	}
	if err := m.ledger.EachOrder(ctx, id, row); err != nil {
		return wrap("orders", err)
	}
	return nil
}

// startedWriter records whether anything was written.
type startedWriter struct {
	io.Writer
	started bool
}

func (w *startedWriter) Write(b []byte) (int, error) {
	w.started = true
	return w.Writer.Write(b)
}

// Report implements sale.MerchantService. It writes CSV by RFC 4180.
func (m *merchants) Report(ctx context.Context, merchant, id string, contacts bool, w io.Writer) error {
	row, err := m.Sale(ctx, merchant, id)
	if err != nil {
		return err
	}
	started := &startedWriter{Writer: w}
	out := csv.NewWriter(started)
	out.UseCRLF = true
	if err := out.Write(reportHeader); err != nil {
		return err
	}
	var orders, paid, units, sum, refunds, returned int64
	err = m.ledger.EachOrder(ctx, id, func(o sale.Order) error {
		orders++
		refunds += int64(o.Refunds)
		returned += o.Returned
		if !contacts {
			o.Contact = o.Contact.Masked()
		}
		a := o.Contact.Address
		if o.State == sale.Paid {
			paid++
			sum += o.Price
			units += o.Units()
		}
		return out.Write([]string{cell(o.ID), cell(o.User), strconv.Itoa(o.Slot), cell(string(o.State)),
			strconv.FormatInt(o.Price, 10), cell(row.Currency), timestamp(o.At), timestamp(o.CreatedAt), timestamp(o.ChangedAt),
			timestamp(o.PayBy), cell(o.Payment), strconv.Itoa(o.Refunds), strconv.FormatInt(o.Returned, 10),
			cell(o.Contact.Name), cell(o.Contact.Phone),
			cell(a.Country), cell(a.City), cell(a.Street), cell(a.Street2), cell(a.Postal), strconv.FormatInt(o.Units(), 10)})
	})
	total := make([]string, len(reportHeader))
	if err != nil {
		if started.started { // the reader would take what it has for all
			total[0], total[1], total[3] = "error", strconv.FormatInt(orders, 10)+" orders", "incomplete"
			_ = out.Write(total)
			out.Flush()
		}
		return wrap("report", err)
	}
	total[0], total[1], total[3] = "total", strconv.FormatInt(orders, 10)+" orders", strconv.FormatInt(paid, 10)+" paid"
	total[4], total[5], total[11] = strconv.FormatInt(sum, 10), cell(row.Currency), strconv.FormatInt(refunds, 10)
	total[12] = strconv.FormatInt(returned, 10)
	total[len(total)-1] = strconv.FormatInt(units, 10)
	if err := out.Write(total); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// cell returns text for a cell of the report. It puts an apostrophe before a sign with which
// a spreadsheet could begin a formula: at the start, and after characters that separate
// cells in some locales. Some spreadsheets also read the full-width forms of the signs.
func cell(text string) string {
	const signs, separators = "=+-@\t\r＝＋－＠", ";\t,|"
	var b strings.Builder
	start := true
	for _, r := range text {
		if start && strings.ContainsRune(signs, r) {
			b.WriteByte('\'')
		}
		b.WriteRune(r)
		start = strings.ContainsRune(separators, r) || start && r == ' '
	}
	return b.String()
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
