package failsafe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/protect"
)

// ExampleForRequests bounds the requests in progress before the limits decide.
func ExampleForRequests() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits := httplimit.Limit(store, "10/s", httplimit.ByIP)
	shop := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "shop") })
	protected := func(handler http.Handler) (http.Handler, error) {
		protections, err := failsafe.ForRequests("shop", guard.Settings{Bulkhead: &guard.Bulkhead{Max: 20}})
		if err != nil {
			return nil, err
		}
		chain := protect.New(protect.Config{Protections: protections})
		return httplimit.Protect(httplimit.ProtectConfig{Chain: chain})(limits(handler)), nil
	}
	handler, err := protected(shop)
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 shop
}
