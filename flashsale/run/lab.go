package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/lab"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/redis/rueidis"
)

// lockLab runs the lock lab for the office, over redis or, if it is nil, over a store in
// this process.
func lockLab(redis rueidis.Client) func(context.Context, web.LabAsk) (web.LabRun, error) {
	return func(ctx context.Context, a web.LabAsk) (web.LabRun, error) {
		r, err := lab.Run(ctx, lab.Config{
			Design: lab.Design(a.Design), Buyers: a.Buyers, Stock: a.Stock, Pause: a.Pause, Redis: redis,
		})
		if errors.Is(err, lab.ErrInvalid) {
			err = fmt.Errorf("%w: %w", sale.ErrInvalid, err)
		}
		if err != nil {
			return web.LabRun{}, err
		}
		return web.LabRun{
			LabAsk: a, Sold: r.Sold, Oversold: r.Oversold, Undersold: r.Undersold, Took: r.Took, PerSecond: r.PerSecond,
		}, nil
	}
}

// Lab runs one run of the lock lab over the Redis at url, or over a store in this process if
// it is empty. End ends the connections.
func Lab(url string) (runOne func(context.Context, lab.Config) (lab.Result, error), end func(), err error) {
	if url == "" {
		return lab.Run, func() {}, nil
	}
	client, err := dial(url)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, c lab.Config) (lab.Result, error) {
		c.Redis = client
		return lab.Run(ctx, c)
	}, client.Close, nil
}
