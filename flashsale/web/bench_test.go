package web_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// A sink is a ResponseWriter that costs nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

func bench(b *testing.B, s *shop, method, path, body string, want int) {
	b.Helper()
	r := s.request(method, path, "user", body)
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		clear(w.header)
		if body != "" {
			r.Body = io.NopCloser(strings.NewReader(body))
		}
		if s.ServeHTTP(w, r); w.status != want {
			b.Fatalf("status %d, want %d", w.status, want)
		}
	}
}

func selling() *desk {
	v := webtest.View()
	return &desk{
		view: func(string) (sale.View, error) { return v, nil },
		join: func(string, string, string) (sale.QueueStatus, error) {
			return sale.QueueStatus{View: v, State: sale.Waiting, Ahead: 1000, Poll: 1000, Ticket: strings.Repeat("t", 150)}, nil
		},
		buy: func(string, string, string, string) (sale.BuyResult, error) {
			return sale.BuyResult{Receipt: sale.Receipt{Receipt: strings.Repeat("r", 200), Sale: v.Sale, At: webtest.Start(), PayBy: webtest.Start()}}, nil
		},
	}
}

func BenchmarkSoldOut(b *testing.B) {
	d := selling()
	v := webtest.View()
	v.Sale.Paid = v.Sale.Stock
	d.view = func(string) (sale.View, error) { return v, nil }
	s := open(b, d, layers.Config{})
	b.Run("ticket", func(b *testing.B) { bench(b, s, "POST", "/api/sales/a1/ticket", "", 410) })
	b.Run("order", func(b *testing.B) { bench(b, s, "POST", "/api/sales/a1/orders", `{"token":"abc"}`, 410) })
}

func BenchmarkOpen(b *testing.B) {
	s := open(b, selling(), layers.Config{Policies: wide()})
	b.Run("join", func(b *testing.B) { bench(b, s, "POST", "/api/sales/a1/ticket", "", 200) })
	b.Run("poll", func(b *testing.B) { bench(b, s, "GET", "/api/sales/a1/ticket", "", 200) })
	b.Run("order", func(b *testing.B) {
		bench(b, s, "POST", "/api/sales/a1/orders", `{"token":"`+s.token("user", "a1")+`"}`, 202)
	})
	b.Run("view", func(b *testing.B) { bench(b, s, "GET", "/api/sales/a1", "", 200) })
}

// BenchmarkOverLimit measures a request over the limit of its user.
func BenchmarkOverLimit(b *testing.B) {
	policies := strings.NewReplacer("20/s burst 40", "1000000/s", "2/s burst 5", "1/h").Replace(string(layers.Default()))
	s := open(b, selling(), layers.Config{Policies: []byte(policies)})
	s.ServeHTTP(&sink{header: http.Header{}}, s.request("GET", "/api/sales/a1/ticket", "user", ""))
	bench(b, s, "GET", "/api/sales/a1/ticket", "", http.StatusTooManyRequests)
}
