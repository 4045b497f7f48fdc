package run

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir/httplimit"
)

// observe logs what the limits did: a store that makes no decision as an error,
// at most once a second for each policy; a denial at debug level.
func (p *Program) observe() func(*http.Request, httplimit.Event) {
	var mu sync.Mutex
	next := map[string]time.Time{} // by policy, of which there are few
	return func(r *http.Request, e httplimit.Event) {
		switch {
		case e.Err != nil:
			now := time.Now()
			mu.Lock()
			speak := now.After(next[e.Policy.Name()])
			if speak {
				next[e.Policy.Name()] = now.Add(time.Second)
			}
			mu.Unlock()
			if speak {
				p.log.LogAttrs(r.Context(), slog.LevelError, "no decision",
					slog.String("policy", e.Policy.Name()), slog.String("outcome", string(e.Outcome)), slog.Any("error", e.Err))
			}
		case e.Outcome == httplimit.Denied:
			p.log.LogAttrs(r.Context(), slog.LevelDebug, "denied",
				slog.String("policy", e.Policy.Name()), slog.String("key", e.Key),
				slog.String("retry_after", e.Decision.RetryAfter.String()))
		}
	}
}
