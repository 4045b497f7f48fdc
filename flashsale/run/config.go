package run

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/redisstore"
)

// The default addresses of the listeners.
const (
	DefaultShop   = "127.0.0.1:8088"
	DefaultOffice = "127.0.0.1:8089"
)

// maxName bounds the name of a process. Its order writers append a number.
const maxName = 56

// Config configures a flash sale. With Data alone, the embedded mode, one process stores
// everything in a file. Database and Redis together are for several processes.
type Config struct {
	// Data is the directory of the embedded mode, with flashsale.db and the secret. It is
	// created if it is missing.
	Data string

	// Database is the ledger: postgres://…
	Database string

	// Redis is the inventory: redis://, rediss://, redis+sentinel:// or redis+cluster://
	Redis string

	// Secret is the file with the secret, of at least 32 bytes, that signs sessions, tickets,
	// tokens and receipts. If empty, it is the secret in Data, which is created if it is
	// missing. OldSecret is the previous one, whose signatures are still accepted.
	Secret    string
	OldSecret string

	// Shop and Office are the addresses of the listeners for buyers and merchants; DefaultShop
	// and DefaultOffice if empty. Port 0 is any port.
	Shop, Office string

	// MetricsToken is the bearer token that /metrics requires. Without one, Office must be a
	// loopback address.
	MetricsToken string

	// TrustedProxies are the addresses or prefixes of proxies in front whose X-Forwarded-For is
	// trusted.
	TrustedProxies []string

	// WebhookNetworks are addresses or prefixes that are not public, to which webhooks may be
	// sent. Others that are not public are refused.
	WebhookNetworks []string

	// Catalogue is the URL of the shop's catalogue, from which products are copied into sales.
	// Products is the shop's own implementation instead. CatalogueNetworks are addresses or
	// prefixes that are not public, to which the copy may connect.
	Catalogue         string
	Products          catalogue.Catalogue `json:"-"`
	CatalogueNetworks []string

	// Identity configures who buyers are; without it every buyer is a guest.
	Identity Identity

	// Captcha configures the captcha of each new ticket: its widget, and Turnstile's keys.
	Captcha Captcha

	// Challenge verifies the captcha of each new ticket if it is not Turnstile's. While it or
	// Turnstile fails, a ticket requires proof of work instead.
	Challenge captcha.Challenge `json:"-"`

	// Layers is the policy file of the limits per address and per user; the built-in one if
	// empty. It is reloaded when it changes.
	Layers string

	// Payments are the payment providers: https://HOST/PATH of one with the HTTP form of package
	// httpform, StripePayments, MERCHANT=URL for the orders of one merchant alone, or NoPayments.
	Payments []string

	// Stripe configures StripePayments.
	Stripe StripeConfig

	// Mock replaces the providers by a mock, with which any buyer can mark the own order as
	// paid. No flag of serve sets it.
	Mock bool

	// Front disables these limits, because a proxy in front applies them.
	Front bool

	// Name identifies this process among those of the same sale: 1 to 56 letters, digits, . _
	// -. If empty, it is random.
	Name string

	// Workers is the number of order writers; 2 if zero.
	Workers int

	// Drain bounds how long Stop waits for requests in progress; 5 s if zero.
	Drain time.Duration

	Log   *slog.Logger     `json:"-"` // discards if nil
	Clock func() time.Time `json:"-"` // of the inventory and the shop; time.Now if nil. For tests
	Crash crashpoint.Hook  `json:"-"` // for tests
}

// Embedded reports whether c is the embedded mode.
func (c *Config) Embedded() bool { return c.Database == "" && c.Redis == "" }

// check returns every error of c.
func (c *Config) check() error {
	var faults []error
	bad := func(field, value, want string) {
		faults = append(faults, fmt.Errorf("%s %q: want %s", field, value, want))
	}
	switch {
	case c.Embedded() && c.Data == "":
		bad("data", "", "a directory, or --database and --redis")
	case c.Database == "" && c.Redis != "":
		bad("database", "", "postgres://…, as --redis is given: Redis alone keeps no orders")
	case c.Database != "" && c.Redis == "":
		bad("redis", "", "the URL of a Redis, as --database is given: the inventory of several processes")
	}
	if c.Redis != "" {
		if _, err := redisstore.ParseURL(c.Redis); err != nil {
			faults = append(faults, fmt.Errorf("redis: %w", err)) // the URL may contain a password
		}
	}
	if c.Secret == "" && c.Data == "" {
		bad("secret", "", "a file that all processes of a sale share, of at least 32 bytes")
	}
	for _, l := range []struct{ field, addr string }{{"shop", c.Shop}, {"office", c.Office}} {
		if _, _, err := net.SplitHostPort(l.addr); err != nil {
			bad(l.field, l.addr, "HOST:PORT")
		}
	}
	if !loopback(c.Office) && c.MetricsToken == "" {
		bad("office", c.Office, "a loopback address, or a token for /metrics (FLASHSALE_METRICS_TOKEN)")
	}
	if !sale.IsWorkerName(c.Name) || len(c.Name) > maxName {
		bad("name", fmt.Sprintf("%.70s", c.Name), "1 to 56 letters, digits, . _ -")
	}
	for _, text := range c.TrustedProxies {
		if _, err := prefix(text); err != nil {
			bad("trusted-proxies", text, "an address or a prefix such as 10.0.0.0/8")
		}
	}
	for _, text := range c.WebhookNetworks {
		if _, err := prefix(text); err != nil {
			bad("webhook-networks", text, "an address or a prefix such as 10.0.0.0/8")
		}
	}
	if _, err := c.providerFlags(); err != nil {
		faults = append(faults, err)
	}
	for _, text := range c.CatalogueNetworks {
		if _, err := prefix(text); err != nil {
			bad("catalogue-networks", text, "an address or a prefix such as 10.0.0.0/8")
		}
	}
	if c.Catalogue != "" && c.Products != nil {
		bad("catalogue", c.Catalogue, "either it or Products")
	}
	faults = append(faults, c.Identity.check()...)
	faults = append(faults, c.Captcha.check(c.Challenge)...)
	if c.Workers < 0 || c.Workers > 64 {
		bad("workers", fmt.Sprint(c.Workers), "1 to 64")
	}
	return errors.Join(faults...)
}

// prefix parses an address or a prefix of addresses.
func prefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// loopback reports whether only this machine can reach addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
