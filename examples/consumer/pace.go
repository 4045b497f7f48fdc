package main

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/floodweir/weir"
)

// Pace makes handlers wait for their turn under limiter, all that have key together. A
// message whose context ends first is not handled: its error makes the router nack it,
// so that it is delivered again. The limiter has taken nothing for it then.
func Pace(limiter *weir.Limiter, key string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			d, err := limiter.WaitN(msg.Context(), key, 1, weir.Unlimited)
			if err != nil {
				return nil, fmt.Errorf("wait for %s: %w", key, err)
			}
			if !d.OK { // more wait than may
				return nil, fmt.Errorf("wait for %s: denied, retry after %v", key, d.RetryAfter)
			}
			return next(msg)
		}
	}
}
