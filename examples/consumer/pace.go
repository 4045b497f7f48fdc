package main

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/floodweir/weir"
)

// Pace makes handlers wait for a token of key. A message whose context ends first is not handled
// and takes no token: its error makes the router nack it, so that it is delivered again.
func Pace(limiter *weir.Limiter, key string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			d, err := limiter.WaitN(msg.Context(), key, 1, weir.Unlimited)
			if err != nil {
				return nil, fmt.Errorf("wait for %s: %w", key, err)
			}
			if !d.OK { // too many messages wait
				return nil, fmt.Errorf("wait for %s: denied, retry after %v", key, d.RetryAfter)
			}
			return next(msg)
		}
	}
}
