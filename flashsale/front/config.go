package front

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A Config says what stands before what.
type Config struct {
	// Listen is where buyers come, Shop where the shop listens: HOST:PORT. Required.
	Listen, Shop string

	// Weir is where `weir serve` listens for the questions of nginx: HOST:PORT. Required
	// for Asking.
	Weir string

	// Admin is where the gateway, or the Weir that nginx asks, shows its metrics: HOST:PORT;
	// shut if empty. Lua has no such place, and takes none.
	Admin string

	// Store is where the counts are: memory if empty, or the URL of a Redis. Required for
	// Lua.
	Store string

	// Trusted are the addresses and networks of proxies in front of this one, whose
	// X-Forwarded-For is believed.
	Trusted []string

	// Sales that are admitted to in front; the others pass.
	Sales []Sale

	// Killed is the kill switch: all that would change something in any sale is refused as
	// after its end.
	Killed bool

	// Address and User are the limits per address and per user, and Pages is that of an
	// address for all that is not below /api/, since a browser asks for a page and a dozen
	// files at once: 20/s burst 40, 2/s burst 5 and 100/s burst 400 if empty, as the shop
	// has them; COUNT/s burst COUNT or COUNT/m burst COUNT otherwise. "off" leaves one out,
	// and Address "off" leaves out Pages, too, unless it says something.
	Address, User, Pages string
}

// A Sale is admitted to in front of the shop: for sales without a line.
type Sale struct {
	ID string

	// Tokens is how many tickets the shop may give out at once: k × stock. Period is for how
	// long one is good: the front lets no more through in any such time (a tenth of it is as
	// fine as it counts), and one that nobody uses comes free after it. Both required.
	Tokens int64
	Period time.Duration

	// StartsAt is when the sale begins. An nginx that asks needs it, or who is early uses up
	// what there is: it does not see that the shop refuses them.
	StartsAt time.Time

	// Check demands that orders show the shape of an admission token in Flashsale-Token.
	Check bool

	// Killed is the kill switch of this sale.
	Killed bool
}

// Of is how the tickets of a sale are admitted to in front of it. A ticket that nobody uses
// is good for as long as its token: who takes all there are without buying holds up the
// others for that long, and not until units that nobody has would have to be paid.
func NewSale(s *sale.Sale) Sale {
	return Sale{ID: s.ID, Tokens: int64(s.Headroom) * s.Stock, Period: s.TokenFor, StartsAt: s.StartsAt, Check: true}
}

var (
	idForm    = regexp.MustCompile(`^[a-z0-9]{1,64}$`)
	limitForm = regexp.MustCompile(`^[1-9][0-9]{0,6}/[sm] burst [1-9][0-9]{0,6}$`)
)

// check fills in what is not said, and returns every fault.
func (c *Config) check(asks, lua bool) error {
	var faults []error
	bad := func(field, value, want string) {
		faults = append(faults, fmt.Errorf("%s %q: want %s", field, value, want))
	}
	addr := func(field, value string) {
		host, port, err := net.SplitHostPort(value)
		n, perr := strconv.ParseUint(port, 10, 16)
		if _, ierr := netip.ParseAddr(host); err != nil || perr != nil || n == 0 || ierr != nil {
			bad(field, value, "ADDRESS:PORT")
		}
	}
	addr("listen", c.Listen)
	addr("shop", c.Shop)
	if asks {
		addr("weir", c.Weir)
	}
	switch {
	case c.Admin == "" || c.Admin == "off":
		c.Admin = "off"
	case lua:
		bad("admin", c.Admin, "none: Gateway and Asking take it")
	default:
		addr("admin", c.Admin)
	}
	if c.Store == "" {
		c.Store = "memory"
	}
	if u, err := url.Parse(c.Store); c.Store != "memory" && (err != nil || u.Host == "") || lua && c.Store == "memory" {
		faults = append(faults, errors.New("store: want the URL of a Redis"+map[bool]string{true: "", false: ", or memory"}[lua])) // it may hold a password
	}
	for _, t := range c.Trusted {
		if _, err := netip.ParsePrefix(t); err != nil {
			if _, err := netip.ParseAddr(t); err != nil {
				bad("trusted-proxies", t, "an address or a prefix of addresses")
			}
		}
	}
	pages := "100/s burst 400"
	if c.Address == "off" {
		pages = "off"
	}
	for _, l := range []struct {
		field    string
		to       *string
		fallback string
	}{{"address", &c.Address, "20/s burst 40"}, {"user", &c.User, "2/s burst 5"}, {"pages", &c.Pages, pages}} {
		if *l.to == "" {
			*l.to = l.fallback
		}
		if *l.to != "off" && !limitForm.MatchString(*l.to) {
			bad(l.field, *l.to, "off, or as 20/s burst 40")
		}
	}
	seen := map[string]bool{}
	for i, s := range c.Sales {
		field := fmt.Sprintf("sales[%d].", i)
		switch {
		case !idForm.MatchString(s.ID):
			bad(field+"id", s.ID, "1 to 64 lower-case letters and digits")
		case seen[s.ID]:
			bad(field+"id", s.ID, "each sale once")
		}
		seen[s.ID] = true
		if s.Tokens < 1 || s.Tokens > 10_000_000 {
			bad(field+"tokens", strconv.FormatInt(s.Tokens, 10), "1 to 10000000")
		}
		if s.Period < time.Second || s.Period > 24*time.Hour {
			bad(field+"period", s.Period.String(), "1s to 24h")
		}
	}
	if len(c.Sales) > 1000 {
		bad("sales", strconv.Itoa(len(c.Sales)), "up to 1000")
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("front: %w", err)
	}
	return nil
}
