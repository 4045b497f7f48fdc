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

// Board implements sale.MerchantService.
func (s *Shop) Dashboard(ctx context.Context, merchant, id string) (sale.Dashboard, error) {
	if _, err := s.own(ctx, merchant, id); err != nil {
		return sale.Dashboard{}, err
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	t, err := s.Ledger.Totals(ask, id)
	if err != nil {
		return sale.Dashboard{}, away("tally", err)
	}
	p := s.over(t.Sale)
	l := s.live(id)
	if l != nil {
		p = l.snap.Load()
	}
	b := sale.Dashboard{View: p.view(s.Clock()), Totals: t, Admitted: s.tally.admitted.Load(),
		DrainRate: s.drain.shown(), Workers: s.Workers, Layers: s.tally.refusedAll()}
	if s.Refused != nil {
		b.Layers = s.Refused()
	}
	if p.have {
		b.Counts = p.counts
	}
	if l != nil && b.Counts.Backlog > 0 {
		b.Lag = l.lag(p.now(s.Clock()))
	}
	return b, nil
}

// lag is the age of the oldest reservation of this shop that is not seen as an order.
func (l *live) lag(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest time.Time
	for _, a := range l.acked {
		if oldest.IsZero() || a.At.Before(oldest) {
			oldest = a.At
		}
	}
	if oldest.IsZero() || now.Before(oldest) {
		return 0
	}
	return now.Sub(oldest)
}

var reportHead = []string{"reservation", "user", "slot", "state", "price", "currency",
	"reserved_at", "placed_at", "changed_at", "pay_by", "payment", "refunds_due", "name", "phone"}

// Report implements sale.MerchantService. The lines are as RFC 4180 says. A cell that a
// spreadsheet could take for a formula has an apostrophe before it.
func (s *Shop) Report(ctx context.Context, merchant, id string, w io.Writer) error {
	row, err := s.own(ctx, merchant, id)
	if err != nil {
		return err
	}
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(reportHead); err != nil {
		return err
	}
	var orders, paid, sum, refunds int64
	err = s.Ledger.EachOrder(ctx, id, func(o sale.Order) error {
		orders++
		refunds += int64(o.Refunds)
		if o.State == sale.Paid {
			paid++
			sum += o.Price
		}
		return out.Write([]string{cell(o.ID), cell(o.User), strconv.Itoa(o.Slot), cell(string(o.State)),
			strconv.FormatInt(o.Price, 10), cell(row.Currency), stamp(o.At), stamp(o.CreatedAt), stamp(o.ChangedAt),
			stamp(o.PayBy), cell(o.Payment), strconv.Itoa(o.Refunds), cell(o.Contact.Name), cell(o.Contact.Phone)})
	})
	if err != nil {
		return away("report", err)
	}
	total := make([]string, len(reportHead))
	total[0], total[1], total[3] = "total", strconv.FormatInt(orders, 10)+" orders", strconv.FormatInt(paid, 10)+" paid"
	total[4], total[5], total[11] = strconv.FormatInt(sum, 10), cell(row.Currency), strconv.FormatInt(refunds, 10)
	if err := out.Write(total); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// cell is a text in a report. Where a spreadsheet could begin a formula, an apostrophe stands
// before it: at the start, and behind what separates cells where a comma does not. Some read
// the wide forms of the signs too.
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

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
