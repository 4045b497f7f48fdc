package flashsale_test

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A heldPayment is a payment that a customer holds back after its order is written, until it is
// released.
type heldPayment struct {
	written chan struct{} // closed when the order is written
	release chan struct{} // closed to release the payment
	once    sync.Once
	answers []payAnswer // to its calls to pay; complete after the customer has ended
}

// A payAnswer is the response to a call to pay.
type payAnswer struct {
	at     time.Time
	status int  // 0 without a response
	again  bool // whether it has Retry-After
	state  string
}

func (a payAnswer) String() string {
	if a.again {
		return fmt.Sprintf("%d with Retry-After at %s", a.status, a.at.Format(time.StampMilli))
	}
	return fmt.Sprintf("%d %q at %s", a.status, a.state, a.at.Format(time.StampMilli))
}

func newHeldPayment() *heldPayment {
	return &heldPayment{written: make(chan struct{}), release: make(chan struct{})}
}

// wait is called by the customer when its order is written.
func (h *heldPayment) wait(ctx context.Context) error {
	h.once.Do(func() { close(h.written) })
	return closed(ctx, h.release)
}

// closed waits until a channel is closed.
func closed(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c:
		return nil
	}
}
