package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/cashier"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/payments/stripe"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/prometheus/client_golang/prometheus"
)

// NoPayments is the value of Config.Payments for a shop without a payment provider.
const NoPayments = "none"

// StripePayments is the value of Config.Payments for Stripe.
const StripePayments = "stripe"

// StripeConfig configures the payment provider Stripe. See package stripe.
type StripeConfig struct {
	Key  string // secret key, sk_…
	Page string // of the shop, with Stripe's payment element: https://…
	API  string // of a fake; Stripe's if empty
}

// keysEvery is the period at which the keys of providers are read again, so that a rotation
// needs no restart.
const keysEvery = 5 * time.Second

// keptKeys is the number of valid keys of a provider: the new one and the one before.
const keptKeys = 2

// providerFlag is one value of Config.Payments.
type providerFlag struct {
	name string // a merchant, or cashier.Default
	url  string
}

// providerFlags parses Config.Payments.
func (c *Config) providerFlags() ([]providerFlag, error) {
	var all []providerFlag
	var faults []error
	bad := func(value, want string) {
		if strings.Contains(value, "@") {
			value = "…" // it may contain a password
		}
		faults = append(faults, fmt.Errorf("payments %.200q: want %s", value, want))
	}
	for _, text := range c.Payments {
		name, rest, named := strings.Cut(text, "=")
		p := providerFlag{name: cashier.Default, url: text}
		if named && !strings.Contains(name, "/") {
			p = providerFlag{name: name, url: rest}
		}
		switch {
		case text == NoPayments && len(c.Payments) == 1:
			return nil, nil
		case text == NoPayments:
			bad(text, "it alone")
		case !isProvider(p.name) || named && p.name == cashier.Default:
			bad(text, "MERCHANT=URL with 1 to 64 letters, digits, - as the merchant")
		case slices.ContainsFunc(all, func(o providerFlag) bool { return o.name == p.name }):
			bad(text, "one provider for "+p.name)
		case p.url == StripePayments:
			if _, err := c.stripe(&keyring{}); err != nil {
				faults = append(faults, err)
			}
			all = append(all, p)
		default:
			if _, err := httpform.New(httpform.Config{URL: p.url, Keys: func() []signing.Secret { return nil }}); err != nil {
				bad(text, NoPayments+", "+StripePayments+" or https://HOST/PATH of a payment provider")
			}
			all = append(all, p)
		}
	}
	if c.Mock && len(c.Payments) > 0 {
		bad(c.Payments[0], "no provider beside the mock")
	}
	return all, errors.Join(faults...)
}

// mockPrefix returns the prefix of the payments of the mock provider, if there is one.
func (c *Config) mockPrefix() string {
	if c.Mock {
		return web.MockPrefix
	}
	return ""
}

// stripe returns the adapter of Stripe.
func (c *Config) stripe(ring *keyring) (*stripe.Provider, error) {
	return stripe.New(stripe.Config{Key: c.Stripe.Key, Page: c.Stripe.Page, API: c.Stripe.API, Secrets: ring.texts})
}

// isProvider reports whether s can be the name of a provider.
func isProvider(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	})
}

// keyring holds the valid keys of a provider.
type keyring struct {
	mu   sync.Mutex
	keys []signing.Secret
	raw  []string // the same as texts
}

// texts returns the valid keys as texts.
func (k *keyring) texts() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.raw
}

// get returns the valid keys.
func (k *keyring) get() []signing.Secret {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// read reads the keys of a provider from the ledger.
func (k *keyring) read(ctx context.Context, l sale.Ledger, keys *pass.Keys, name string) error {
	texts, err := paymentKeys(ctx, l, keys, name)
	if err != nil {
		return err
	}
	var secrets []signing.Secret
	for _, t := range texts {
		s, err := signing.Parse(t)
		if err != nil {
			return fmt.Errorf("payments: key of %s: %w", name, err)
		}
		secrets = append(secrets, s)
	}
	if len(secrets) == 0 {
		return fmt.Errorf("payments: provider %s has no key: make one with `flashsale payments key add %s`", name, name)
	}
	k.mu.Lock()
	k.keys, k.raw = secrets, texts
	k.mu.Unlock()
	return nil
}

// cashier starts what takes the payments.
func (s *System) cashier(ctx context.Context, c Config, flags []providerFlag, l sale.Ledger, keys *pass.Keys, desk shopDesk, registry prometheus.Registerer) (*cashier.Cashier, error) {
	providers := map[string]payments.Payments{}
	rings := map[string]*keyring{}
	for _, f := range flags {
		ring := &keyring{}
		if err := ring.read(ctx, l, keys, f.name); err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
		var p payments.Payments
		var err error
		if f.url == StripePayments {
			p, err = c.stripe(ring)
		} else {
			p, err = httpform.New(httpform.Config{URL: f.url, Keys: ring.get})
		}
		if err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
		providers[f.name], rings[f.name] = p, ring
	}
	k, err := cashier.New(cashier.Config{Ledger: l, Shop: desk, Keys: keys, Providers: providers, Applied: desk.PaymentApplied, Crash: c.Crash, Log: c.Log})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(cashierMetrics(k))
	following, end := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(keysEvery)
		defer tick.Stop()
		for {
			select {
			case <-following.Done():
				return
			case <-tick.C:
			}
			for name, ring := range rings {
				if err := ring.read(following, l, keys, name); err != nil && following.Err() == nil {
					c.Log.Warn("keys of a payment provider not read, keeping the previous ones", "provider", name, "error", err)
				}
			}
		}
	})
	k.Start()
	s.undo = append(s.undo, func() error { k.Stop(); end(); ended.Wait(); return nil })
	return k, nil
}

// shopDesk has the methods of a shop that a cashier calls.
type shopDesk interface {
	sale.BuyerService
	PaymentApplied(sale.PayResult)
}

// paymentKeys returns the valid keys of a provider, the newest first.
func paymentKeys(ctx context.Context, l sale.Ledger, keys *pass.Keys, name string) ([]string, error) {
	sealed, err := l.PaymentKeys(ctx, name)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(sealed))
	for i, text := range sealed {
		if texts[i], err = keys.OpenKey(name, text); err != nil {
			return nil, fmt.Errorf("payments: a key of %s is encrypted with another secret than --secret and --old-secret", name)
		}
	}
	return texts, nil
}

// A PaymentKeyring reads and changes the keys of payment providers.
type PaymentKeyring struct {
	ledger sale.Ledger
	keys   *pass.Keys
}

// OpenPaymentKeyring opens the ledger and the secret of c, also while a System is running.
func OpenPaymentKeyring(ctx context.Context, c Config) (*PaymentKeyring, error) {
	var secret, old []byte
	var err error
	if c.Secret != "" {
		secret, err = readSecret("secret", c.Secret)
	} else if c.Data != "" {
		secret, err = c.ownSecret()
	} else {
		err = errors.New("secret: want the file of the shop's secret, which encrypts the keys")
	}
	if err == nil && c.OldSecret != "" {
		old, err = readSecret("old-secret", c.OldSecret)
	}
	if err != nil {
		return nil, err
	}
	keys, err := pass.NewKeys(secret, old)
	if err != nil {
		return nil, err
	}
	l, err := OpenLedger(ctx, c)
	if err != nil {
		return nil, err
	}
	return &PaymentKeyring{l, keys}, nil
}

// Keys returns the valid keys of a provider, the newest first.
func (p *PaymentKeyring) Keys(ctx context.Context, provider string) ([]string, error) {
	return paymentKeys(ctx, p.ledger, p.keys, provider)
}

// Add adds a key of a provider, a new one if text is empty, and returns it. The key before stays
// valid, older ones do not.
func (p *PaymentKeyring) Add(ctx context.Context, provider, text string) (string, error) {
	if !isProvider(provider) {
		return "", fmt.Errorf("provider %.80q: want %s or a merchant: 1 to 64 letters, digits, -", provider, cashier.Default)
	}
	if text == "" {
		text = signing.New().Text()
	}
	if _, err := signing.Parse(text); err != nil {
		return "", err
	}
	sealed, err := p.keys.SealKey(provider, text)
	if err != nil {
		return "", err
	}
	return text, p.ledger.AddPaymentKey(ctx, provider, sealed, keptKeys, time.Now())
}

// RetryRefunds makes failed refunds due again, and returns how many. An empty payment stands
// for all.
func (p *PaymentKeyring) RetryRefunds(ctx context.Context, payment string) (int64, error) {
	return p.ledger.RetryRefunds(ctx, payment, time.Now())
}

// Unmatched returns up to 1000 payments that match no order, the latest first.
func (p *PaymentKeyring) Unmatched(ctx context.Context) ([]payments.Unmatched, error) {
	return p.ledger.UnmatchedPayments(ctx, 1000)
}

// Close closes the ledger.
func (p *PaymentKeyring) Close() error { return p.ledger.Close() }
