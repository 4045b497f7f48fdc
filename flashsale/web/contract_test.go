package web_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// TestContract runs the suite of the interface against a flash sale that is whole, with plain
// requests, and with requests that the http.Server answers.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"plain": "", "other": "trailers"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := run.Start(t.Context(), run.Config{
				Data: t.TempDir(), Mock: true, Shop: "127.0.0.1:0", Office: "127.0.0.1:0", TrustedProxies: []string{"127.0.0.0/8"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}()
			if err := s.AddMerchant(t.Context(), "merchant", "correct horse"); err != nil {
				t.Fatal(err)
			}
			webtest.Contract(t, webtest.Target{
				Shop: s.ShopURL, Office: s.OfficeURL, Name: "merchant", Password: "correct horse", Default: true,
				From: func(r *http.Request, i int) {
					r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.%d.%d.%d", 18+i>>16, i>>8&255, i&255))
					if more != "" {
						r.Header.Set("Te", more) // a request with this field is not plain
					}
				},
			})
		})
	}
}
