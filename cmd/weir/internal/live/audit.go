package live

import (
	"context"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
)

// pendingFor is the time that the result of an entry is waited for.
const pendingFor = 10 * time.Second

// Audit returns a Notices for a Config, which reads the entries of an audit log. An entry without a
// result, and those after it, wait for the result at most pendingFor.
func Audit(log *audit.Log) func(ctx context.Context, after int64) ([]Notice, error) {
	return func(ctx context.Context, after int64) ([]Notice, error) {
		most := MaxNotices
		if after < 0 {
			most = 1
		}
		entries, err := log.Read(ctx, audit.Filter{Limit: most})
		var all []Notice
		for i := len(entries) - 1; i >= 0; i-- {
			e := entries[i]
			switch {
			case e.ID <= after:
				continue
			case after >= 0 && e.OK == nil && time.Since(e.At) < pendingFor:
				return all, err
			}
			all = append(all, Notice{ID: e.ID, Data: func(operate bool) any { return log.Shown(e, operate) }})
		}
		return all, err
	}
}
