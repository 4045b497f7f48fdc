package web_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// TestQuantity checks how many units a request wants, and the answer if fewer are left.
func TestQuantity(t *testing.T) {
	d := selling()
	d.buy = func(string, string, string, string) (sale.BuyResult, error) {
		return sale.BuyResult{Reason: sale.FewLeft, Layer: sale.LS, Left: 2, RetryAfter: time.Second}, nil
	}
	s := open(t, d, layers.Config{Policies: wide()})
	token := s.token("u", "a1")
	for _, test := range []struct {
		quantity string // in JSON; empty for none
		want     int    // asked of the service; -1 for a refusal with the field
	}{
		{"", 1}, {"1", 1}, {"3", 3}, {"0", 0}, {"-1", -1 << 20}, {"4294967297", min(4294967297, math.MaxInt)}, {"1.5", -1}, {`"2"`, -1}, {"true", -1}, {"99999999999999999999", -1},
	} {
		member := ""
		if test.quantity != "" {
			member = `,"quantity":` + test.quantity
		}
		for path, body := range map[string]string{
			"/api/sales/a1/ticket": `{"buy":true` + member + `}`,
			"/api/sales/a1/orders": `{"token":"` + token + `"` + member + `}`,
		} {
			d.wanted = nil
			w := s.ask("POST", path, "u", body)
			if test.want == -1 {
				if got := webtest.Summary(w); got != "400  invalid" || !strings.Contains(w.Body.String(), `"field":"quantity"`) || len(d.wanted) > 0 {
					t.Errorf("%s %s: %q %s", path, body, got, w.Body)
				}
				continue
			}
			want := test.want
			if want == -1<<20 {
				want = -1 // the service refuses it
			}
			if !slices.Equal(d.wanted, []int{want}) {
				t.Errorf("%s %s asked for %v units, want %d", path, body, d.wanted, want)
			}
		}
	}
	w := s.ask("POST", "/api/sales/a1/orders", "u", fmt.Sprintf(`{"token":%q,"quantity":3}`, token))
	if got := webtest.Summary(w); got != "409 stock few_left" || !strings.Contains(w.Body.String(), `"left":2`) || w.Header().Get("Retry-After") == "" {
		t.Errorf("3 units of 2: %q %s", got, w.Body)
	}
}
