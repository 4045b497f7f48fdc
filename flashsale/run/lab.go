package run

import (
	"context"

	"github.com/floodweir/weir/flashsale/verify/lab"
	"github.com/redis/rueidis"
)

// lockLab is the lock lab over redis or, if it is nil, over a store in this process.
func lockLab(redis rueidis.Client) func(context.Context, lab.Config) (lab.Result, error) {
	return func(ctx context.Context, c lab.Config) (lab.Result, error) {
		c.Redis = redis
		return lab.Run(ctx, c)
	}
}

// Lab runs one run of the lock lab over the Redis at url, or over a store in this process if
// it is empty. End ends the connections.
func Lab(url string) (runOne func(context.Context, lab.Config) (lab.Result, error), end func(), err error) {
	if url == "" {
		return lockLab(nil), func() {}, nil
	}
	client, err := dial(url)
	if err != nil {
		return nil, nil, err
	}
	return lockLab(client), client.Close, nil
}
