// Package curves stores the figures of sales over time, in a ledger.
package curves

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// Store implements sale.Curves in a ledger.
type Store struct{ DB *database.DB }

var _ sale.Curves = Store{}

// sample is a sample as a statement reads it.
type sample struct {
	Sale     string `json:"sale"`
	At       int64  `json:"at"`
	Admitted int64  `json:"admitted"`
	Waiting  *int64 `json:"waiting"`
}

// addSamples ignores a sample that equals the latest row, so that idle sales, and processes that
// see the same change, add no rows. If two statements run at once, a row can have the older
// figures until the process with these sees the change and adds its next sample.
const addSamples = `INSERT INTO curves (sale, at, admitted, reserved, paid, waiting, free)
	SELECT r.sale, r.at, r.admitted, s.placed, s.paid, r.waiting, s.stock - s.sold
	FROM {rows:sale text, at bigint, admitted bigint, waiting bigint} JOIN sales s ON s.id = r.sale
	WHERE r.admitted > 0 OR NOT EXISTS (SELECT 1 FROM curves c WHERE c.sale = r.sale
		AND c.at = (SELECT max(at) FROM curves WHERE sale = r.sale) AND c.reserved = s.placed AND c.paid = s.paid
		AND c.free = s.stock - s.sold AND (r.waiting IS NULL OR c.waiting = r.waiting))
	ORDER BY r.sale
	ON CONFLICT (sale, at) DO UPDATE SET admitted = curves.admitted + excluded.admitted,
		reserved = excluded.reserved, paid = excluded.paid, waiting = coalesce(excluded.waiting, curves.waiting), free = excluded.free`

// AddSamples implements sale.Curves. The samples of one call are of different sales.
func (s Store) AddSamples(ctx context.Context, process string, samples []sale.CurveSample) error {
	for part := range slices.Chunk(samples, 1000) {
		ids := make([]string, len(part))
		for i, p := range part {
			ids[i] = p.Sale
		}
		first := false
		err := s.DB.Do(ctx, database.Write, func(x *database.Tx) (err error) {
			first, err = addPart(x, process, part, ids)
			return err
		})
		if err == nil && first {
			err = s.removeReports(ctx, part[0].At)
		}
		if err != nil {
			return wrap(err)
		}
		if err := s.thin(ctx, ids); err != nil {
			return wrap(err)
		}
	}
	return nil
}

// report is the number of admissions of a process.
type report struct {
	Sale     string `json:"sale"`
	Admitted int64  `json:"admitted"`
}

// reportsFor bounds how long the reports of a sale are kept after its last point. The last call with
// a sample of it is long over then.
const reportsFor = 24 * time.Hour

// removeReports removes the reports of sales that have ended.
func (s Store) removeReports(ctx context.Context, now time.Time) error {
	return s.DB.Exec(ctx, `DELETE FROM curve_reports WHERE sale IN (SELECT r.sale FROM curve_reports r JOIN sales s ON s.id = r.sale
		WHERE s.state = 'ended' AND NOT EXISTS (SELECT 1 FROM curves c WHERE c.sale = r.sale AND c.at >= $1))`, now.Add(-reportsFor).UnixMilli())
}

// addPart adds samples in a transaction. It reports whether one is the first of this process with
// admissions of its sale.
func addPart(x *database.Tx, process string, part []sale.CurveSample, ids []string) (first bool, err error) {
	rows := make([]sample, len(part))
	var reports []report
	for i, p := range part {
		rows[i] = sample{Sale: p.Sale, At: startOf(p.At.UnixMilli(), sale.CurveStep)}
		if p.Counted {
			rows[i].Waiting = &p.Waiting
		}
		if p.Admitted > 0 {
			reports = append(reports, report{p.Sale, p.Admitted})
		}
	}
	if len(reports) > 0 {
		before, fresh, err := exchange(x, process, reports, ids)
		if err != nil {
			return false, err
		}
		first = fresh > 0
		for i, p := range part {
			rows[i].Admitted = max(0, p.Admitted-before[p.Sale])
		}
	}
	doc, err := json.Marshal(rows)
	if err == nil {
		_, err = x.Exec(addSamples, string(doc))
	}
	return first, err
}

// exchange stores reports and returns the earlier ones by sale. It first makes fresh rows, so that
// it waits for an earlier call that has not ended yet.
func exchange(x *database.Tx, process string, reports []report, ids []string) (before map[string]int64, fresh int64, err error) {
	doc, err := json.Marshal(reports)
	if err != nil {
		return nil, 0, err
	}
	const rows = " FROM {rows:sale text, admitted bigint} "
	if fresh, err = x.Exec("INSERT INTO curve_reports (sale, process, admitted) SELECT s.id, $2, 0"+rows+"JOIN sales s ON s.id = r.sale WHERE true ORDER BY s.id ON CONFLICT DO NOTHING", string(doc), process); err != nil {
		return nil, 0, err
	}
	old, err := database.List(x, func(scan func(...any) error) (r report, err error) {
		err = scan(&r.Sale, &r.Admitted)
		return r, err
	},
		"SELECT sale, admitted FROM curve_reports WHERE process = $1 AND sale {among:2} ORDER BY sale {lock}", process, x.Among(ids))
	if err != nil {
		return nil, 0, err
	}
	before = make(map[string]int64, len(old))
	for _, r := range old {
		before[r.Sale] = r.Admitted
	}
	_, err = x.Exec("UPDATE curve_reports SET admitted = r.admitted"+rows+"WHERE curve_reports.sale = r.sale AND process = $2 AND curve_reports.admitted < r.admitted", string(doc), process)
	return before, fresh, err
}

// startOf returns the start of the step of a time in ms.
func startOf(at int64, step time.Duration) int64 { return at - at%step.Milliseconds() }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: curves: %w", err)
}

// row is a row of the table curves, without its sale.
type row struct {
	At       int64  `json:"at"`
	Admitted int64  `json:"admitted"`
	Reserved int64  `json:"reserved"`
	Paid     int64  `json:"paid"`
	Waiting  *int64 `json:"waiting"` // nil if no process knew it
	Free     int64  `json:"free"`
}

func list(x *database.Tx, id, lock string) ([]row, error) {
	return database.List(x, func(scan func(...any) error) (r row, err error) {
		err = scan(&r.At, &r.Admitted, &r.Reserved, &r.Paid, &r.Waiting, &r.Free)
		return r, err
	}, "SELECT at, admitted, reserved, paid, waiting, free FROM curves WHERE sale = $1 ORDER BY at "+lock, id)
}

// thin merges rows of those sales that have too many.
func (s Store) thin(ctx context.Context, ids []string) error {
	var large []string
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		large, err = database.List(x, func(scan func(...any) error) (id string, err error) { return id, scan(&id) },
			"SELECT sale FROM curves WHERE sale {among:1} GROUP BY sale HAVING count(*) > $2 ORDER BY sale", x.Among(ids), sale.MaxCurvePoints)
		return err
	})
	for _, id := range large {
		if err == nil {
			err = s.DB.Do(ctx, database.Write, func(x *database.Tx) error { return thinSale(x, id) })
		}
	}
	return err
}

// thinSale locks the row of the sale first: a second transaction then reads what the first wrote.
func thinSale(x *database.Tx, id string) error {
	if err := x.Row("SELECT id FROM sales WHERE id = $1 {lock}", id).Scan(new(string)); err != nil {
		return err
	}
	before, err := list(x, id, "{lock}")
	if err != nil || len(before) <= sale.MaxCurvePoints {
		return err
	}
	old, err := json.Marshal(before)
	if err != nil {
		return err
	}
	merged, err := json.Marshal(merge(before, sale.MaxCurvePoints*2/3))
	if err != nil {
		return err
	}
	// Only rows that were read: meanwhile a process may have added one between them.
	if _, err := x.Exec("DELETE FROM curves WHERE sale = $2 AND at IN (SELECT at FROM {rows:at bigint})", string(old), id); err != nil {
		return err
	}
	_, err = x.Exec(`INSERT INTO curves (sale, at, admitted, reserved, paid, waiting, free)
		SELECT $2, at, admitted, reserved, paid, waiting, free FROM {rows:at bigint, admitted bigint, reserved bigint, paid bigint, waiting bigint, free bigint}`, string(merged), id)
	return err
}

// merge merges rows within one step, and doubles the step until at most max rows are left. A
// merged row has the time and the figures of its last one, all admissions and the longest queue.
func merge(rows []row, max int) []row {
	for step := 2 * sale.CurveStep; len(rows) > max; step *= 2 {
		var merged []row
		for _, r := range rows {
			if n := len(merged); n > 0 && startOf(merged[n-1].At, step) == startOf(r.At, step) {
				last := merged[n-1]
				r.Admitted += last.Admitted
				if r.Waiting == nil || last.Waiting != nil && *last.Waiting > *r.Waiting {
					r.Waiting = last.Waiting
				}
				merged[n-1] = r
				continue
			}
			merged = append(merged, r)
		}
		rows = merged
	}
	return rows
}

// Points implements sale.Curves.
func (s Store) Points(ctx context.Context, id string) ([]sale.CurvePoint, error) {
	var rows []row
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		rows, err = list(x, id, "")
		return err
	})
	if err != nil {
		return nil, wrap(err)
	}
	points := make([]sale.CurvePoint, len(rows))
	var last sale.CurvePoint
	var admitted int64
	for i, r := range rows {
		// Admissions of a process that was killed may be missing.
		admitted += r.Admitted
		p := sale.CurvePoint{At: time.UnixMilli(r.At).UTC(), Admitted: max(admitted, r.Reserved), Reserved: r.Reserved,
			Paid: r.Paid, Waiting: last.Waiting, Free: r.Free}
		if r.Waiting != nil {
			p.Waiting = *r.Waiting
		}
		points[i], last = p, p
	}
	return points, nil
}
