package httpapi_test

import (
	"context"

	"github.com/floodweir/weir"
)

// A recorder is a store that admits everything and records the requests.
type recorder struct{ asked []weir.Request }

func (s *recorder) Do(_ context.Context, r weir.Request) (weir.Decision, error) {
	s.asked = append(s.asked, r)
	return weir.Decision{OK: true, Limit: r.Limit}, nil
}

func (s *recorder) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	for i, r := range rs {
		ds[i], _ = s.Do(ctx, r)
	}
	return true, nil
}

// A degraded is a store that denies everything in a degraded mode.
type degraded struct{ mode weir.FailMode }

func (s degraded) Do(_ context.Context, r weir.Request) (weir.Decision, error) {
	return weir.Decision{Limit: r.Limit, Degraded: s.mode}, nil
}

func (s degraded) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	for i, r := range rs {
		ds[i], _ = s.Do(ctx, r)
	}
	return false, nil
}
