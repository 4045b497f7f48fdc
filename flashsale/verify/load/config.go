package load

import (
	"cmp"
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

	"github.com/floodweir/weir/flashsale/sale"
)

// A Profile selects what users do.
type Profile string

const (
	// Open: all users arrive at once, get a ticket, poll as the server says, and buy when they
	// are admitted. Pay percent of the buyers pay. The run ends when every user has bought or
	// has received that nothing is left.
	Open Profile = "open"

	// SoldOut: all connections request tickets of a sold-out sale as fast as they get responses,
	// until Duration or Requests.
	SoldOut Profile = "soldout"

	// Drain is Open with at most as many users as units: it measures how fast orders become
	// durable.
	Drain Profile = "drain"

	// Waiting: users get a ticket, poll as the server says, and never buy. The run ends at
	// Duration. It measures the cost of a queue.
	Waiting Profile = "waiting"

	// Mixed is Open with misuse: double clicks on two connections, repeated orders with and
	// without the key, damaged tokens, tokens of other users, and false headers. Responses that
	// should be equal or refusals, and are not, are counted in Result.Faults.
	Mixed Profile = "mixed"
)

// A Config holds the parameters of a run.
type Config struct {
	// URL of the shop or of the proxy in front of it: http://HOST:PORT. Required.
	URL string

	// Sale is the ID of the sale. Required.
	Sale string

	Profile Profile // Open if empty

	// Users is the number of users: 1 to 1,000,000; 10,000 if zero.
	Users int

	// Prefix is the prefix of the users' names, before a number; "u" if empty.
	Prefix string

	// Connections is the number of connections: 1 to 10,000 and at most Users; 256 if zero.
	Connections int

	// Session returns the value of a user's cookie fs_session. If it is nil, every user requests
	// a session first and has the name in the response.
	Session func(user string) string

	// At is when the first users are due: at once if it is zero or in the past.
	At time.Time

	// Over is the period over which users arrive, evenly: all at once if it is zero, at most
	// Duration. If all arrive at once, a user's second request waits behind the first requests
	// of all.
	Over time.Duration

	// Pay is the percentage of buyers who pay; the orders of the others expire. Cancel is the
	// percentage who cancel.
	Pay, Cancel int

	// Click makes users ask for a ticket and a unit in one call, as the page does. Those who pay
	// do so next, without reading the order first.
	Click bool

	// Quantity is the number of units that a user orders: 1 to 10; 1 if zero. If fewer are left,
	// the user orders those.
	Quantity int

	// Patience is the number of retryable refusals (425, 429, 503, all taken) after which a user
	// gives up; 0 for never. With AllTaken a user continues when all units are reserved, since
	// some may return; without it that ends the user.
	Patience int
	AllTaken bool

	// Lossy says that the inventory may fail during the run and lose acknowledged reservations.
	// Buyers with a lost reservation queue again. Without Lossy a lost reservation is counted in
	// Result.Faults.
	Lossy bool

	// MaxPoll is the maximum delay between two polls of a user; 0 for the delay that the server
	// says.
	MaxPoll time.Duration

	// Duration is the maximum duration of the run: 1 minute if zero, at most 1 hour. Requests is
	// the maximum number of requests; 100 million if zero.
	Duration time.Duration
	Requests int64

	// Addresses is the number of client addresses, sent in X-Forwarded-For to a server that
	// trusts this machine: 0 for none, up to 16 million (10.0.0.0/8). Claim puts a false address
	// in front of it.
	Addresses int
	Claim     bool

	// Anywhere permits a URL that is not a loopback address.
	Anywhere bool

	// Observations receives one line of JSON per call (auditor.Observation); nil for none.
	// Sampled writes equal refusals as one line without a user.
	Observations io.Writer
	Sampled      bool

	// Backlog returns the number of reservations that are not orders yet. If it is nil, every
	// buyer polls its receipt until it is an order, which adds load.
	Backlog func(ctx context.Context) (int64, error)

	// Processes are servers on this machine, by name, whose CPU time and memory are measured. A
	// process that does not exist, or a system without /proc, is an error.
	Processes map[string]int

	// Mode and Work are printed with the result: the kind of server (embedded, real, …), and
	// what it does per request.
	Mode, Work string
}

// address returns the address to connect to.
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
			return "", fmt.Errorf("url %q: want a loopback address, or permission for another one", c.URL)
		}
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// check sets the defaults and returns all invalid fields.
func (c *Config) check() error {
	var faults []error
	c.Users, c.Connections = cmp.Or(c.Users, 10_000), cmp.Or(c.Connections, 256)
	c.Profile, c.Prefix = cmp.Or(c.Profile, Open), cmp.Or(c.Prefix, "u")
	c.Quantity = cmp.Or(c.Quantity, 1)
	c.Duration, c.Requests = cmp.Or(c.Duration, time.Minute), cmp.Or(c.Requests, 100_000_000)
	within := func(field string, n, low, high int64) {
		if n < low || n > high {
			faults = append(faults, fmt.Errorf("%s %d: want %d to %d", field, n, low, high))
		}
	}
	within("users", int64(c.Users), 1, 1_000_000)
	within("connections", int64(c.Connections), 1, 10_000)
	within("quantity", int64(c.Quantity), 1, sale.MaxQuantity)
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
		faults = append(faults, fmt.Errorf("max poll %s: want 0 or more", c.MaxPoll))
	}
	switch c.Profile {
	case Open, SoldOut, Drain, Waiting, Mixed:
	default:
		faults = append(faults, fmt.Errorf("profile %q: want open, soldout, drain, waiting or mixed", c.Profile))
	}
	if !word(c.Sale, 64) {
		faults = append(faults, fmt.Errorf("sale %q: want an ID of letters and digits", c.Sale))
	}
	if !word(c.Prefix, 40) {
		faults = append(faults, fmt.Errorf("prefix %q: want up to 40 letters, digits, - and _", c.Prefix))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Processes)) {
		pid := c.Processes[name]
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", pid)); pid < 1 || err != nil {
			faults = append(faults, fmt.Errorf("processes %s=%d: want the ID of a process of this machine, with /proc", name, pid))
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
