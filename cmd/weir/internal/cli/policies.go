package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// runningPolicies returns the policies of a running program, from the admin interface of the flag, or
// else of WEIR_ADMIN or the default. Errors do not name a command.
func runningPolicies(ctx context.Context, w *app, admin, tokenFile string) (*weirfile.File, error) {
	q, err := w.adminRequest("running", admin, tokenFile)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	ctx, done := w.wait(ctx, q.to.Redacted())
	defer done()
	q.path, q.unreachable = []string{"v1", "text"}, "Set another URL with --admin, or name a file"
	data, err := q.send(ctx)
	if err != nil {
		return nil, err
	}
	var text struct{ Text string }
	if err := json.Unmarshal(data, &text); err != nil || text.Text == "" {
		return nil, fmt.Errorf("running: %s: the response is not from Weir", q.to.Redacted())
	}
	return weirfile.Parse("running", []byte(text.Text))
}

// publishedPolicies returns a version of the policies in a Redis, or the current one for 0.
func publishedPolicies(ctx context.Context, w *app, store string, number int64) (f *weirfile.File, err error) {
	err = w.withConn(ctx, store, func(ctx context.Context, conn redisstore.Conn) error {
		if number == 0 {
			if number, err = published.Current(ctx, conn); err != nil {
				return err
			}
		}
		v, err := published.Get(ctx, conn, number)
		switch {
		case errors.Is(err, published.ErrNone) && number == 0:
			return errors.New("no policies published yet")
		case errors.Is(err, published.ErrNone):
			return fmt.Errorf("version %d not found (see weir versions)", number)
		case err != nil:
			return err
		}
		f, err = weirfile.Parse(fmt.Sprintf("version %d", number), []byte(v.Text))
		return err
	})
	return f, err
}
