package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"
)

// A Profile says what the crowd does.
type Profile string

const (
	// Open: all users come at once, get a ticket, ask again when the server says so, and
	// buy when they are admitted; Pay of a hundred pay. It ends when every user has bought
	// or knows that there is nothing to buy.
	Open Profile = "open"

	// SoldOut: all connections ask for tickets of a sale that has nothing left, as fast as
	// they are answered, until Duration or Requests.
	SoldOut Profile = "soldout"

	// Drain is Open with as many users as the sale has units, or fewer: how fast orders
	// become durable.
	Drain Profile = "drain"

	// Waiting: users get a ticket and wait, asking again when the server says so, and never
	// buy. It ends at Duration after all of them had an answer: what a line costs.
	Waiting Profile = "waiting"

	// Mixed is Open with all that browsers and their users get wrong: double clicks on two
	// connections, the same order again with and without its key, tokens that are damaged
	// or another user's, and headers that claim to be somebody else. What has to be equal
	// or refused and is not is among Result.Faults.
	Mixed Profile = "mixed"
)

// A Config says who comes to which sale.
type Config struct {
	// URL of the shop, or of what stands before it: http://HOST:PORT. Required.
	URL string

	// Sale is the ID of the sale. Required.
	Sale string

	Profile Profile // Open if empty

	// Users is how many come: 1 to 1,000,000; 10,000 if zero.
	Users int

	// Prefix begins the users' names: Prefix followed by a number; "u" if empty.
	Prefix string

	// Connections is over how many they come: 1 to 10,000; 256 if zero, never more than
	// Users.
	Connections int

	// Session returns the value of the cookie fs_session of a user. If it is nil, every
	// user asks the server for a session first, and has the name that it gives.
	Session func(user string) string

	// At is when the users are due: at once if it is zero or past.
	At time.Time

	// Over is for how long they come from then on, evenly: all at once if it is zero. It is
	// within Duration. All at once, who has been answered and clicks again stands behind all
	// who have not been answered yet.
	Over time.Duration

	// Pay is how many of a hundred buyers pay; the others let their orders expire. Cancel
	// is how many of a hundred cancel.
	Pay, Cancel int

	// Patience is after how many refusals that can be tried again (425, 429, 503, all taken)
	// a user gives up; 0 for never. AllTaken says that a user who is told that all units are
	// taken asks on, since some may return; without it that is the end for a user.
	Patience int
	AllTaken bool

	// Lossy says that the inventory may fail while the crowd is there, and lose what it has
	// acknowledged. Buyers who are told that theirs is lost stand in line again; without it
	// that is among Result.Faults.
	Lossy bool

	// MaxPoll is the longest that a user waits before asking again, whatever the server
	// says; 0 for as long as it says.
	MaxPoll time.Duration

	// Duration is the bound on the whole run: 1 minute if zero, at most 1 hour. Requests
	// is the bound on the requests; 100 million if zero.
	Duration time.Duration
	Requests int64

	// Addresses is how many addresses the users have, which X-Forwarded-For tells a server
	// that trusts this machine: 0 for none, up to 16 million (10.0.0.0/8). Claim puts an
	// address before it that a client might have made up.
	Addresses int
	Claim     bool

	// Anywhere permits a URL whose host is not a loopback address.
	Anywhere bool

	// Observations gets a line of JSON for each call (auditor.Observation); nil for none.
	// Sampled counts refusals that are equal together, in one line of nobody's.
	Observations io.Writer
	Sampled      bool

	// Backlog returns how many reservations are not orders yet; if it is nil, every buyer
	// asks about the receipt until it is an order, which loads the server as well.
	Backlog func(ctx context.Context) (int64, error)

	// Processes are servers on this machine whose processor time and memory are measured,
	// by name: their process IDs. One that is not there, or of a system without /proc, is a
	// fault.
	Processes map[string]int

	// Mode and Work are printed with the result: what is driven (embedded, real, …), and
	// what the server does for a request.
	Mode, Work string
}

// address is where connections go.
func (c *Config) address() (hostport string, err error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" || u.Host == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("url %q: want http://HOST:PORT", c.URL)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	if !c.Anywhere && u.Hostname() != "localhost" {
		ip, err := netip.ParseAddr(u.Hostname())
		if err != nil || !ip.IsLoopback() {
			return "", fmt.Errorf("url %q: want a loopback address, or the word that another may be loaded", c.URL)
		}
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// check fills in what is not said, and returns every fault.
func (c *Config) check() error {
	var faults []error
	or := func(n *int, else_ int) {
		if *n == 0 {
			*n = else_
		}
	}
	or(&c.Users, 10_000)
	or(&c.Connections, 256)
	if c.Profile == "" {
		c.Profile = Open
	}
	if c.Prefix == "" {
		c.Prefix = "u"
	}
	if c.Duration == 0 {
		c.Duration = time.Minute
	}
	if c.Requests == 0 {
		c.Requests = 100_000_000
	}
	within := func(field string, n, low, high int64) {
		if n < low || n > high {
			faults = append(faults, fmt.Errorf("%s %d: want %d to %d", field, n, low, high))
		}
	}
	within("users", int64(c.Users), 1, 1_000_000)
	within("connections", int64(c.Connections), 1, 10_000)
	within("pay", int64(c.Pay), 0, 100)
	within("cancel", int64(c.Cancel), 0, int64(100-min(100, max(0, c.Pay))))
	within("patience", int64(c.Patience), 0, 1_000_000)
	within("addresses", int64(c.Addresses), 0, 1<<24)
	within("requests", c.Requests, 1, 10_000_000_000)
	if c.Duration < 0 || c.Duration > time.Hour {
		faults = append(faults, fmt.Errorf("duration %s: want up to 1h", c.Duration))
	}
	if c.Over < 0 || c.Over > c.Duration {
		faults = append(faults, fmt.Errorf("over %s: want up to the duration, %s", c.Over, c.Duration))
	}
	if c.MaxPoll < 0 {
		faults = append(faults, fmt.Errorf("max poll %s: want none below 0", c.MaxPoll))
	}
	switch c.Profile {
	case Open, SoldOut, Drain, Waiting, Mixed:
	default:
		faults = append(faults, fmt.Errorf("profile %q: want open, soldout, drain, waiting or mixed", c.Profile))
	}
	if !word(c.Sale, 64) {
		faults = append(faults, fmt.Errorf("sale %q: want its ID, of letters and digits", c.Sale))
	}
	if !word(c.Prefix, 40) {
		faults = append(faults, fmt.Errorf("prefix %q: want up to 40 letters, digits, - and _", c.Prefix))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Processes)) {
		pid := c.Processes[name]
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", pid)); pid < 1 || err != nil {
			faults = append(faults, fmt.Errorf("processes %s=%d: want the ID of a process of this machine, which has /proc", name, pid))
		}
	}
	if _, err := c.address(); err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	c.Connections = min(c.Connections, c.Users)
	return nil
}

func word(s string, longest int) bool {
	for _, r := range s {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_') {
			return false
		}
	}
	return s != "" && len(s) <= longest
}
