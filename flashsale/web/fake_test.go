package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/memstore"
)

// A desk is a sale.BuyerService of functions; what a test does not give is not found.
type desk struct {
	sale.BuyerService // nil

	time   time.Time // of the inventory; start if zero
	list   []sale.View
	view   func(id string) (sale.View, error)
	join   func(user, id, place string) (sale.QueueStatus, error)
	buy    func(user, id, token, key string) (sale.BuyResult, error)
	order  func(user, receipt string) (sale.Receipt, error)
	pay    func(receipt, payment string, amount int64) (sale.PayResult, error)
	orders func(user string) ([]sale.Receipt, error)

	mu  sync.Mutex
	saw []sale.NetworkUse

	wanted []int // quantities
}

// Limited returns a service that refuses guests which hold a unit.
func (d *desk) Limited(units int) sale.BuyerService { return &limitedDesk{d, units} }

// Quantity records the wanted units.
func (d *desk) Quantity(units int) sale.BuyerService {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = append(d.wanted, units)
	return d
}

func (d *limitedDesk) Quantity(int) sale.BuyerService { return d }

type limitedDesk struct {
	*desk
	units int
}

func (d *limitedDesk) Join(ctx context.Context, user, id, place string) (sale.QueueStatus, error) {
	t, err := d.desk.Join(ctx, user, id, place)
	if len(t.Reserved) >= d.units && t.State != sale.Spent {
		t.Reason, t.Layer = sale.PerUserLimit, sale.LS
	}
	return t, err
}

func (d *limitedDesk) Click(ctx context.Context, user, id, place, _ string) (sale.QueueStatus, error) {
	return d.Join(ctx, user, id, place)
}

func (d *limitedDesk) Buy(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
	if t, _ := d.Join(ctx, user, id, ""); t.Reason != sale.OK {
		return sale.BuyResult{Reason: t.Reason, Layer: t.Layer}, nil
	}
	return d.desk.Buy(ctx, user, id, token, key)
}

func (d *desk) Now() time.Time {
	if d.time.IsZero() {
		return webtest.Start()
	}
	return d.time
}

func (d *desk) RecordNetwork(user, id, network string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saw = append(d.saw, sale.NetworkUse{Sale: id, User: user, Network: network})
}

func (d *desk) List(context.Context) ([]sale.View, error) { return d.list, nil }

func (d *desk) View(_ context.Context, id string) (sale.View, error) {
	if d.view == nil {
		return sale.View{}, sale.ErrNotFound
	}
	return d.view(id)
}

func (d *desk) Join(_ context.Context, user, id, place string) (sale.QueueStatus, error) {
	return d.join(user, id, place)
}

func (d *desk) Click(_ context.Context, user, id, place, _ string) (sale.QueueStatus, error) {
	return d.join(user, id, place)
}

func (d *desk) Status(_ context.Context, user, id, place string) (sale.QueueStatus, error) {
	return d.join(user, id, place)
}

func (d *desk) Buy(_ context.Context, user, id, token, key string) (sale.BuyResult, error) {
	return d.buy(user, id, token, key)
}

func (d *desk) Order(_ context.Context, user, receipt string) (sale.Receipt, error) {
	return d.order(user, receipt)
}

func (d *desk) Orders(_ context.Context, user string) ([]sale.Receipt, error) { return d.orders(user) }

func (d *desk) Pay(_ context.Context, receipt, payment string, amount int64) (sale.PayResult, error) {
	return d.pay(receipt, payment, amount)
}

// A shop under test.
type shop struct {
	*web.Shop
	keys   *pass.Keys
	layers *layers.Layers
	desk   *desk
	now    time.Time
}

// with returns the same shop with captchas.
func (s *shop) with(t *testing.T, c captcha.Challenge) *web.Shop {
	t.Helper()
	next, err := web.NewShop(web.ShopConfig{Service: s.desk, Keys: s.keys, Layers: s.layers, Challenge: c, Mock: true, Clock: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	return next
}

// wide is a policy file with very high limits.
func wide() []byte {
	return []byte(strings.NewReplacer("20/s burst 40", "1000000/s", "500/s burst 1000", "1000000/s", "2/s burst 5", "1000000/s").Replace(string(layers.Default())))
}

func open(t testing.TB, d *desk, c layers.Config, change ...func(c *web.ShopConfig)) *shop {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c.Store = store
	l, err := layers.New(c)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{keys: keys, layers: l, desk: d, now: webtest.Start()}
	config := web.ShopConfig{Service: d, Keys: keys, Layers: l, Mock: true, Clock: func() time.Time { return s.now }}
	for _, f := range change {
		f(&config)
	}
	s.Shop, err = web.NewShop(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// ask sends a request, without a session if user is empty.
func (s *shop) ask(method, path, user, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, s.request(method, path, user, body))
	return w
}

func (s *shop) request(method, path, user, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Flashsale-Request", "1")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		r.Header.Set("Cookie", "fs_session="+s.keys.Session(pass.Session{User: user, Expires: s.now.Add(time.Hour)}))
	}
	return r
}

func (s *shop) token(user, id string) string {
	return s.keys.Token(pass.Token{Sale: id, Epoch: 1, User: user, Ticket: "0123456789abcdef", Until: s.now.Add(time.Minute)})
}
