package flashsale_test

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A held is a payment that a customer holds back when its order is written, until it is told
// to pay.
type held struct {
	written chan struct{} // closed when the order is
	told    chan struct{} // closed when it is to be paid
	once    sync.Once
	answers []payAnswer // to its calls to pay; to be read when the customer has gone
}

// A payAnswer is the answer to a call to pay.
type payAnswer struct {
	at     time.Time
	status int  // 0 if there was none
	again  bool // the shop says when to come again
	state  string
}

func (a payAnswer) String() string {
	if a.again {
		return fmt.Sprintf("%d, to come again, at %s", a.status, a.at.Format(time.StampMilli))
	}
	return fmt.Sprintf("%d %q at %s", a.status, a.state, a.at.Format(time.StampMilli))
}

func newHeld() *held { return &held{written: make(chan struct{}), told: make(chan struct{})} }

// wait is called by the customer whose order is written.
func (h *held) wait(ctx context.Context) error {
	h.once.Do(func() { close(h.written) })
	return closed(ctx, h.told)
}

// closed waits until a channel is.
func closed(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c:
		return nil
	}
}
