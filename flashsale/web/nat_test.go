package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	deskpkg "github.com/floodweir/weir/flashsale/shop"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/memstore"
)

// realShop returns a whole shop in memory with a policy file, and its exposed sale.
func realShop(t *testing.T, dir string, d sale.Draft, policies []byte) (http.Handler, *pass.Keys, string) {
	t.Helper()
	ctx := context.Background()
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(dir, "shop.db"), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	inventory, err := meminventory.New(meminventory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inventory.Stop)
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	desk, err := deskpkg.New(deskpkg.Config{Inventory: inventory, Ledger: l, Limits: store, Keys: keys, Worker: "w"})
	if err == nil {
		err = desk.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Stop)
	s, err := desk.Create(ctx, "m", "", d)
	if err == nil {
		s, err = desk.Expose(ctx, "m", s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	lay, err := layers.New(layers.Config{Store: store, Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.NewShop(web.ShopConfig{Service: desk, Keys: keys, Layers: lay, Mock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h, keys, s.ID
}

// maxTries bounds the attempts of a request that is refused or needs work. Work is real: without
// the bound, users whose proofs are ignored would repeat it for minutes.
const maxTries = 40

// lastPayment lets 60 users buy and pay, and returns when the last one has paid.
func lastPayment(t *testing.T, policies []byte, address func(i int) string) (last time.Duration) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().Add(time.Second)
		h, keys, id := realShop(t, dir, sale.Draft{SKU: "tea", Title: "Tea", Price: 1999, Stock: 60, StartsAt: start, EndsAt: start.Add(time.Hour)}, policies)
		time.Sleep(2 * time.Second)
		began := time.Now()
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				user := fmt.Sprint("user-", i)
				jar := map[string]string{"fs_session": keys.Session(pass.Session{User: user, Expires: began.Add(time.Hour)})}
				work := ""
				ask := func(method, path, body string) (int, map[string]any) {
					for range maxTries {
						if t.Failed() { // other users need not go on
							runtime.Goexit()
						}
						r := httptest.NewRequest(method, path, strings.NewReader(body))
						r.RemoteAddr = address(i)
						r.Header.Set("Flashsale-Request", "1")
						r.Header.Set("Content-Type", "application/json")
						for name, value := range jar {
							r.AddCookie(&http.Cookie{Name: name, Value: value})
						}
						if work != "" {
							r.Header.Set("Flashsale-Work", work)
						}
						w := httptest.NewRecorder()
						h.ServeHTTP(w, r)
						for _, c := range w.Result().Cookies() {
							jar[c.Name] = c.Value
						}
						var got map[string]any
						if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
							t.Errorf("%s %s: %s", method, path, w.Body)
						}
						switch {
						case got["reason"] == "work_due":
							var err error
							if work, err = pass.Solve(t.Context(), got["challenge"].(string), int(got["bits"].(float64))); err != nil {
								t.Error(err)
							}
						case w.Code == http.StatusTooManyRequests || w.Code == http.StatusServiceUnavailable:
							time.Sleep(time.Second)
						default:
							return w.Code, got
						}
					}
					t.Errorf("%s: %s %s: refused %d times", user, method, path, maxTries)
					runtime.Goexit()
					return 0, nil
				}
				status, got := ask("POST", "/api/sales/"+id+"/ticket", `{"buy":true}`)
				held, _ := got["held"].([]any)
				if status != http.StatusCreated || len(held) != 1 {
					t.Errorf("%s: %d %v, want a unit with one click", user, status, got)
					return
				}
				order := "/api/orders/" + held[0].(map[string]any)["receipt"].(string)
				for {
					if _, got = ask("GET", order, ""); got["state"] != "reserved" {
						break
					}
					time.Sleep(300 * time.Millisecond)
				}
				if status, got = ask("POST", order+"/pay", `{}`); status != http.StatusOK || got["state"] != "paid" {
					t.Errorf("%s pays: %d %v", user, status, got)
				}
				mu.Lock()
				defer mu.Unlock()
				last = max(last, time.Since(began))
			})
		}
		all.Wait()
	})
	return last
}

// TestBuyersBehindOneAddress checks that 60 buyers behind one address pay as fast as those with
// their own addresses. Time is virtual: work takes none.
func TestBuyersBehindOneAddress(t *testing.T) {
	one := func(int) string { return "192.0.2.1:1" }
	own := lastPayment(t, nil, func(i int) string { return fmt.Sprintf("198.51.100.%d:1", i) })
	shared := lastPayment(t, nil, one)
	plain := strings.NewReplacer(`except: { headers: { Flashsale-Proof: "*" } }`, "", ", Flashsale-Work: due", "").Replace(string(layers.Default()))
	before := lastPayment(t, []byte(plain), one)
	t.Logf("the last of 60 buyers has paid after %v with own addresses, %v behind one, %v behind one without proofs", own, shared, before)
	if before < 4*time.Second {
		t.Errorf("without proofs the last buyer paid after %v: the test has too few requests", before)
	}
	if shared > own+2*time.Second {
		t.Errorf("behind one address the last buyer paid after %v, want at most 2s more than %v", shared, own)
	}
}
