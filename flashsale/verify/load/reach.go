package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// reachWithin is the maximum duration of the first request.
const reachWithin = 10 * time.Second

// Reach checks c, and with one request that a shop at its URL has the sale. Run does not make
// this request, so that it can start before the shop.
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
			return fmt.Errorf("load: before the start: %w", context.Cause(ctx))
		}
		words, op := kindOf(err), (*net.OpError)(nil)
		switch {
		case soon.Err() != nil:
			words = "timeout"
		case words == "dial" && errors.As(err, &op):
			words = op.Err.Error()
		}
		return fmt.Errorf("load: url %q: no response: %s", c.URL, words)
	}
	var a response
	switch status := w.res.StatusCode(); status {
	case 200:
		if a.read(w.res.Body()); !a.complete {
			return fmt.Errorf("load: url %q: want a shop, got a response that is not a sale", c.URL)
		}
	case 410, 425, 429, 503: // busy or closed, but a shop
	case 404:
		return fmt.Errorf("load: sale %q: want the ID of a sale at %s, got status 404", c.Sale, c.URL)
	case 502, 504:
		return fmt.Errorf("load: url %q: want a shop, got status %d from a proxy without one", c.URL, status)
	default:
		return fmt.Errorf("load: url %q: want a shop with public sales, got status %d", c.URL, status)
	}
	return nil
}
