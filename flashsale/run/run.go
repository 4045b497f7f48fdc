package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir"
	weirrueidis "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/pages"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/redisinventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/flashsale/webhook"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/plainhttp"
	"github.com/floodweir/weir/redisstore"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"
)

// DefaultDrain is the default of Config.Drain.
const DefaultDrain = 5 * time.Second

// storeDeadline is the timeout of the store of limits.
const storeDeadline = 200 * time.Millisecond

// watchAfter is the time from which a request ends when its client disconnects. Under load, most
// purchases wait for a commit. They complete without their client, as a repeated click expects.
const watchAfter = 2 * time.Second

// flushDelay is the time between two writes to Redis under load. It saves system calls here and
// at Redis.
const flushDelay = 100 * time.Microsecond

// reserveSize is the size of a part of the heap that is never used, and therefore not resident.
// The garbage collector runs when the heap has doubled. With the reserve, a small heap doubles
// after at least 64 MiB of allocations. It costs at most that much memory, while a higher GOGC
// would multiply the heap of a sale with many waiting buyers.
const reserveSize = 64 << 20

// System is a running flash sale.
type System struct {
	ShopURL, OfficeURL string

	Buyers    sale.BuyerService
	Merchants sale.MerchantService

	ledger  sale.Ledger
	log     *slog.Logger
	drain   time.Duration
	reserve []byte // reserveSize bytes, never used
	failed  chan error
	undo    []func() error // stop functions of the parts, in the order of starting
	once    sync.Once
	err     error // of Stop
}

// Start starts a flash sale. It starts the parts in order. If one fails, it stops the others in
// reverse order, as Stop does.
func Start(ctx context.Context, c Config) (*System, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	s := &System{log: c.Log, drain: c.Drain, reserve: make([]byte, reserveSize), failed: make(chan error, 2)}
	if err := s.start(ctx, c); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	c.Shop = cmp.Or(c.Shop, DefaultShop)
	c.Office = cmp.Or(c.Office, DefaultOffice)
	c.Workers = cmp.Or(c.Workers, 2)
	c.Drain = cmp.Or(c.Drain, DefaultDrain)
	if c.Name == "" {
		c.Name = "p-" + strings.ToLower(rand.Text())
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// stores holds the parts with state.
type stores struct {
	ledger *ledger.Ledger
	gate   sale.Inventory
	limits weir.Store
	redis  rueidis.Client // nil in the embedded mode
}

func (s *System) start(ctx context.Context, c Config) error {
	g, err := c.prepare()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if g.secret == nil {
		if g.secret, err = c.ownSecret(); err != nil {
			return err
		}
	}
	keys, err := pass.NewKeys(g.secret, g.old)
	if err != nil {
		return err
	}
	var st stores
	if c.Embedded() {
		st, err = s.embedded(ctx, c)
	} else {
		st, err = s.shared(ctx, c)
	}
	if err != nil {
		return err
	}
	s.ledger = st.ledger
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	lay, err := s.layers(ctx, c, g, st.limits, registry)
	if err != nil {
		return err
	}
	desk, err := shop.New(shop.Config{
		Inventory: st.gate, Ledger: st.ledger, Limits: st.limits, Keys: keys, Curves: st.ledger.Curves(),
		Worker: c.Name, Workers: c.Workers, Refused: lay.Counts, Members: c.Identity.given(),
		Clock: c.Clock, Crash: c.Crash, Log: c.Log,
	})
	if err != nil {
		return err
	}
	if err := desk.Start(ctx); err != nil {
		return err
	}
	s.undo = append(s.undo, func() error { desk.Stop(); return nil })
	registry.MustRegister(metricsOf(desk))
	s.Buyers, s.Merchants = desk, desk
	hooks, err := webhook.New(webhook.Config{Store: st.ledger.Webhooks(), Networks: g.hooks, Clock: c.Clock, Registry: registry, Log: c.Log})
	if err != nil {
		return err
	}
	hooks.Start()
	s.undo = append(s.undo, func() error { hooks.Stop(); return nil })
	var k web.Cashier
	if !c.Mock {
		flags, err := c.providerFlags()
		if err != nil {
			return err // check has found it
		}
		if k, err = s.cashier(ctx, c, flags, st.ledger, keys, desk, registry); err != nil {
			return err
		}
	}
	return s.listen(c, g, st, keys, lay, desk, k, registry)
}

// embedded opens the stores of one process.
func (s *System) embedded(ctx context.Context, c Config) (stores, error) {
	if err := c.makeData(); err != nil {
		return stores{}, err
	}
	free, err := lock(c.Data)
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, free)
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(c.Data, "flashsale.db"), ledger.Config{Crash: c.Crash, Mock: c.mockPrefix()})
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, l.Close)
	journal, err := l.Journal()
	if err != nil {
		return stores{}, err
	}
	g, err := meminventory.New(meminventory.Config{Journal: journal, Clock: c.Clock, Crash: c.Crash})
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, func() error { g.Stop(); return nil })
	m, err := memstore.New(memstore.Config{})
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, m.Close)
	return stores{ledger: l, gate: g, limits: m}, nil
}

// shared opens the stores of several processes.
func (s *System) shared(ctx context.Context, c Config) (stores, error) {
	l, err := ledger.Open(ctx, c.Database, ledger.Config{Crash: c.Crash, Mock: c.mockPrefix()})
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, l.Close)
	client, err := DialRedis(c.Redis)
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, func() error { client.Close(); return nil })
	g, err := redisinventory.New(client, redisinventory.Config{Log: c.Log})
	if err != nil {
		return stores{}, err
	}
	s.undo = append(s.undo, func() error { g.Stop(); return nil })
	warnings, err := redisinventory.Warnings(ctx, client)
	if err != nil {
		warnings = []string{"its settings are unknown: " + err.Error()} // the sale starts when Redis replies
	}
	for _, w := range warnings {
		c.Log.Warn("Redis may lose reservations", "why", w)
	}
	r, err := redisstore.New(weirrueidis.New(client), redisstore.Config{Prefix: "flashsale"})
	if err != nil {
		return stores{}, err
	}
	return stores{l, g, r, client}, nil
}

// DialRedis connects to the Redis at url.
func DialRedis(url string) (rueidis.Client, error) {
	addr, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err) // the URL may contain a password
	}
	o := weirrueidis.Options(addr)
	o.MaxFlushDelay = flushDelay
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return client, nil
}

// layers makes the limits before the shop.
func (s *System) layers(ctx context.Context, c Config, g given, store weir.Store, registry prometheus.Registerer) (*layers.Layers, error) {
	lc := layers.Config{Store: store, Registry: registry, Policies: g.layers, TrustedProxies: g.trusted, Front: c.Front, Log: c.Log}
	if !c.Embedded() {
		lc.Deadline = storeDeadline
	}
	l, err := layers.New(lc)
	if err != nil || c.Layers == "" {
		return l, err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		l.Watch(ctx, c.Layers, nil) // it logs errors of the file
	}()
	s.undo = append(s.undo, func() error { end(); <-followed; return nil })
	return l, nil
}

// listen starts the two listeners.
func (s *System) listen(c Config, g given, st stores, keys *pass.Keys, lay *layers.Layers, desk *shop.Shop, k web.Cashier, registry *prometheus.Registry) error {
	now := time.Now
	if c.Clock != nil {
		now = c.Clock
	}
	copier := &catalogue.Copier{Catalogue: g.products, Store: st.ledger.Products(), Pictures: webhook.NewClient(catalogueTimeout, g.shops), Clock: now}
	s.Merchants = catalogue.Merchants{MerchantService: desk, Copier: copier}
	buyers, err := web.NewShop(web.ShopConfig{
		Service: desk, Keys: keys, Layers: lay, Cashier: k, Mock: c.Mock,
		Products: copier.Store, Buyers: g.buyers, OIDC: g.oidc, SignIn: c.Identity.SignIn, Challenge: g.challenge,
		Pages: pages.NewShop(pages.Config{Mock: c.Mock, Captcha: c.Captcha.page()}), Clock: c.Clock, Log: c.Log,
	})
	if err != nil {
		return err
	}
	s.undo = append(s.undo, buyers.Close)
	merchants, err := office.New(office.Config{
		Service: s.Merchants, Products: copier, Accounts: st.ledger.Accounts(), Webhooks: st.ledger.Webhooks(), Keys: keys, Layers: lay, Pages: pages.NewOffice(pages.Config{}),
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), MetricsToken: c.MetricsToken,
		Ready: func(ctx context.Context) error { return st.ledger.Ping(ctx) }, Clock: c.Clock, Log: c.Log,
	})
	if err != nil {
		return err
	}
	if s.ShopURL, err = s.serve("shop", c.Shop, buyers); err != nil {
		return err
	}
	s.OfficeURL, err = s.serve("office", c.Office, merchants)
	return err
}

// serve listens at addr and returns its URL.
func (s *System) serve(what, addr string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", what, addr, err)
	}
	server := web.Server(h)
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	listener := plainhttp.Listen(server, l, plainhttp.Config{WatchAfter: watchAfter})
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("%s: %w", what, err)
		}
	}()
	s.undo = append(s.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), s.drain)
		defer cancel()
		if err := errors.Join(server.Shutdown(ctx), listener.Shutdown(ctx)); err != nil {
			return errors.Join(fmt.Errorf("%s: requests were cut off after %v", what, s.drain), server.Close())
		}
		return nil
	})
	return "http://" + l.Addr().String(), nil
}

// Failed receives the error of a listener that ended.
func (s *System) Failed() <-chan error { return s.failed }

// AddMerchant adds a merchant, or replaces its password: see the function AddMerchant.
func (s *System) AddMerchant(ctx context.Context, name, password string) error {
	hash, err := hashOf(name, password)
	if err != nil {
		return err
	}
	return s.ledger.AddMerchant(ctx, name, hash)
}

// Stop stops the parts in reverse order, the listeners first. It may be called again.
func (s *System) Stop() error {
	s.once.Do(func() {
		for i := len(s.undo) - 1; i >= 0; i-- {
			s.err = errors.Join(s.err, s.undo[i]())
		}
	})
	return s.err
}
