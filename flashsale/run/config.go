package run

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/redisstore"
)

// The addresses that are listened at if nothing else is said.
const (
	DefaultShop   = "127.0.0.1:8088"
	DefaultOffice = "127.0.0.1:8089"
)

// maxName is how long a process's name is at most: its order writers add a number to it.
const maxName = 56

// A Config says what a flash sale runs on. Data alone is the embedded mode, in which one
// process keeps everything in a file; Database and Redis together are the mode for several
// processes.
type Config struct {
	// Data is the directory of the embedded mode: flashsale.db and the secret. It is made if
	// it is not there.
	Data string

	// Database is the ledger: postgres://…
	Database string

	// Redis is the inventory: redis://, rediss://, redis+sentinel:// or redis+cluster://
	Redis string

	// Secret is the file with the secret that sessions, tickets, tokens and receipts are
	// signed with, of at least 32 bytes; Data's own if empty, which is made if it is not
	// there. OldSecret is the one before, whose signatures still count.
	Secret    string
	OldSecret string

	// Shop and Office are where buyers and merchants are listened to; DefaultShop and
	// DefaultOffice if empty. Port 0 is any.
	Shop, Office string

	// MetricsToken is what /metrics asks for as a bearer token. Without one, Office has to
	// be a loopback address.
	MetricsToken string

	// TrustedProxies are the addresses or prefixes of proxies in front, whose word about
	// the client's address counts.
	TrustedProxies []string

	// Layers is the policy file of the limits per address and per user; the embedded one if
	// empty. It is read again when it changes.
	Layers string

	// Front says that these limits are kept in front of the shop, and not here.
	Front bool

	// Name tells this process from others of the same sale: 1 to 56 letters, digits, . _ -.
	// One is made up if it is empty.
	Name string

	// Workers is how many goroutines write orders; 2 if zero.
	Workers int

	// Drain is how long a stop waits for requests; 5 s if zero.
	Drain time.Duration

	Log   *slog.Logger     `json:"-"` // nothing is logged if nil
	Clock func() time.Time `json:"-"` // of the engine and the shop; the machine's if nil. For tests
	Crash crashpoint.Hook  `json:"-"` // for tests
}

// Embedded reports whether c is the embedded mode.
func (c *Config) Embedded() bool { return c.Database == "" && c.Redis == "" }

// check returns every fault of c.
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
			faults = append(faults, fmt.Errorf("redis: %w", err)) // the URL may hold a password
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
	if c.Workers < 0 || c.Workers > 64 {
		bad("workers", fmt.Sprint(c.Workers), "1 to 64")
	}
	return errors.Join(faults...)
}

// prefix reads an address or a prefix of addresses.
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
