package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// reachWithin is how long the first answer may take.
const reachWithin = 10 * time.Second

// Reach checks c, and that a shop which shows the sale answers at its URL, with one request.
// Run does not ask so, and is not held up by a shop that comes later.
func Reach(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	addr, _ := c.address() // checked
	soon, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	w := &wire{addr: addr, host: addr}
	defer w.close()
	cut := context.AfterFunc(soon, w.cut)
	defer cut()
	_, err := w.ask(soon, func(b []byte) []byte {
		return append(b, "GET /api/sales/"+c.Sale+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"...)
	})
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("load: before the users came: %w", context.Cause(ctx))
		}
		words, op := kindOf(err), (*net.OpError)(nil)
		switch {
		case soon.Err() != nil:
			words = "no answer in time"
		case words == "dial" && errors.As(err, &op):
			words = op.Err.Error()
		}
		return fmt.Errorf("load: url %q: no response: %s", c.URL, words)
	}
	var a response
	switch status := w.res.StatusCode(); status {
	case 200:
		if a.read(w.res.Body()); !a.complete {
			return fmt.Errorf("load: url %q: want a shop, its answer is no view of a sale", c.URL)
		}
	case 410, 425, 429, 503: // who is busy, or closed, is there
	case 404:
		return fmt.Errorf("load: sale %q: want the ID of one that is shown at %s, which says 404", c.Sale, c.URL)
	case 502, 504:
		return fmt.Errorf("load: url %q: want a shop, what stands before it has none: it says %d", c.URL, status)
	default:
		return fmt.Errorf("load: url %q: want a shop, which shows its sales to everybody: it says %d", c.URL, status)
	}
	return nil
}
