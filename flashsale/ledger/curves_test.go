package ledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/curvetest"
)

func TestCurves(t *testing.T) {
	curvetest.Run(t, func(t *testing.T) curvetest.Ledger { return openAt(t, "sqlite::memory:", ledger.Config{}) })
}

// TestCurveReportsRemoved checks that the first report of a process removes those of sales that have
// ended, a day after their last point.
func TestCurveReportsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{})
	one, _ := stocked(t, l, 5, 0)
	two, _ := stocked(t, l, 5, 0)
	report := func(process string, s sale.Sale, at time.Time) {
		t.Helper()
		if err := l.Curves().AddSamples(t.Context(), process, []sale.CurveSample{{Sale: s.ID, At: at, Admitted: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	report("a", one, start)
	report("a", two, start)
	if _, err := l.SetState(t.Context(), one.Merchant, one.ID, sale.Ended, sale.ByMerchant, start, sale.Exposed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		process string
		after   time.Duration
		want    int
	}{{"b", 24 * time.Hour, 3}, {"b", 25 * time.Hour, 3}, {"c", 25 * time.Hour, 3}} {
		report(c.process, two, start.Add(c.after))
		if n := countRows(t, path, "curve_reports"); n != c.want {
			t.Errorf("%d reports after a report of %s at %v, want %d", n, c.process, c.after, c.want)
		}
	}
	if n := countRows(t, path, "curve_reports WHERE sale = '"+one.ID+"'"); n != 0 {
		t.Errorf("%d reports of the sale that has ended, want none", n)
	}
}
