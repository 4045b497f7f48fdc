package front

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Config configures a front: a proxy before the shop.
type Config struct {
	// Listen is the address for buyers: HOST:PORT. Required.
	Listen string

	// Shops are the addresses of the processes of the shop, between which nginx divides the buyers:
	// HOST:PORT. One is required. Gateway accepts no more than one.
	Shops []string

	// Weir is the address of the `weir serve` that nginx calls: HOST:PORT. Required for
	// AuthRequest.
	Weir string

	// Admin is the address of the metrics of the gateway, or of the Weir that nginx calls:
	// HOST:PORT; disabled if empty. Lua does not accept it.
	Admin string

	// Store is where the state of limits is: in memory if empty, or the URL of a Redis.
	// Required for Lua.
	Store string

	// Trusted are the addresses and networks of proxies in front of this one, whose
	// X-Forwarded-For is trusted.
	Trusted []string

	// Killed is the kill switch: every change in any sale is refused as after its end.
	// KilledSales are the IDs of sales for which it is on.
	Killed      bool
	KilledSales []string

	// Address and User are the limits per address and per user. Pages is the limit of an
	// address outside /api/, because a browser loads a page and a dozen files at once. If empty
	// they are those of the shop: 20/s burst 40, 2/s burst 5 and 100/s burst 400. Otherwise
	// they are COUNT/s burst COUNT or COUNT/m burst COUNT. "off" disables one; Address "off"
	// also disables an empty Pages.
	Address, User, Pages string

	// Tickets is the limit of each sale, of tickets and polls in its waiting room, in the same
	// form: 20000/s burst 40000 if empty, or off.
	Tickets string
}

var (
	idForm    = regexp.MustCompile(`^[a-z0-9]{1,64}$`)
	limitForm = regexp.MustCompile(`^[1-9][0-9]{0,6}/[sm] burst [1-9][0-9]{0,6}$`)
)

// check sets defaults and returns every error.
func (c *Config) check(nginx, asks, lua bool) error {
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
	if n := len(c.Shops); n == 0 || n > 1 && !nginx {
		bad("shop", strings.Join(c.Shops, ","), "one ADDRESS:PORT, or several for nginx")
	}
	for _, shop := range c.Shops {
		addr("shop", shop)
	}
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
		faults = append(faults, errors.New("store: want the URL of a Redis"+map[bool]string{true: "", false: ", or memory"}[lua])) // the URL may contain a password
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
	}{{"address", &c.Address, "20/s burst 40"}, {"user", &c.User, "2/s burst 5"}, {"pages", &c.Pages, pages}, {"tickets", &c.Tickets, "20000/s burst 40000"}} {
		if *l.to == "" {
			*l.to = l.fallback
		}
		if *l.to != "off" && !limitForm.MatchString(*l.to) {
			bad(l.field, *l.to, "off, or as 20/s burst 40")
		}
	}
	for _, id := range c.KilledSales {
		if !idForm.MatchString(id) {
			bad("killed-sales", id, "1 to 64 lower-case letters and digits")
		}
	}
	if len(c.KilledSales) > 1000 {
		bad("killed-sales", strconv.Itoa(len(c.KilledSales)), "up to 1000")
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("front: %w", err)
	}
	return nil
}
