package flashsale_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// frontContract runs the conformance suite of the HTTP API through every front, before a shop
// without limits of its own. The responses must be the same as without a front.
func frontContract(t *testing.T, weir string) {
	for _, kind := range frontKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := run.Config{Data: t.TempDir(), Shop: "127.0.0.1:0", Office: "127.0.0.1:0", TrustedProxies: []string{"127.0.0.1"}, Front: true}
			if err := run.AddMerchant(t.Context(), c, "front", "a long password of it"); err != nil {
				t.Fatal(err)
			}
			shop, err := startChild(t, child.Order{Config: c})
			if err != nil {
				t.Fatal(err)
			}
			fc := front.Config{Trusted: []string{"127.0.0.1"}}
			if kind != "gateway" && !long() {
				fc.User = "100/s burst 1000" // this limit is not under test
			}
			f := startFront(t, weir, kind, strings.TrimPrefix(shop.Shop, "http://"), fc)
			webtest.Contract(t, webtest.Target{Shop: f.URL, Office: shop.Office, Name: "front", Password: "a long password of it",
				Rewrites: true,
				From: func(r *http.Request, i int) {
					r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.66.%d.%d", i>>8&255, i&255))
				}})
			if err := shop.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
