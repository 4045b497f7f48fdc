package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
)

// TestMessageAlone checks that the message of a Resource is the whole text of its denials, also if
// it is the default one.
func TestMessageAlone(t *testing.T) {
	for _, message := range []string{"slow down, please", "rate limit exceeded"} {
		r := registry(t, guard.Config{
			Functions:   functions(guard.Rule{Name: "refused", Settings: guard.Settings{Breaker: &guard.Breaker{Failures: 1}}}),
			Protections: protectionsByRule{"refused": {{name: "breaker", refuse: errDown}}}.make,
		})
		g := r.MustGuard(guard.Resource{Name: "f", Message: message, Limits: limits("1/h")})
		passed(t, g, "", 1)
		_, limited := g.Enter(context.Background(), "")
		_, refused := r.MustGuard(guard.Resource{Name: "refused", Message: message}).Enter(context.Background(), "")
		for _, err := range []error{limited, refused} {
			if err == nil || err.Error() != message || !errors.Is(err, guard.ErrDenied) {
				t.Errorf("Enter = %v, want exactly %q", err, message)
			}
		}
		if !errors.Is(refused, errDown) {
			t.Errorf("%v does not wrap the error of the protection", refused)
		}
	}
}

func TestRespond(t *testing.T) {
	down := registry(t, guard.Config{
		Store:     &broken{down: errDown},
		Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("9/h"), OnStoreError: policy.Closed})),
	})
	_, undecided := down.MustGuard(guard.Resource{Name: "f"}).Enter(context.Background(), "")
	_, invalid := down.MustGuard(guard.Resource{Name: "f"}).EnterN(context.Background(), "", -1)
	for _, tc := range []struct {
		err         error
		status      int
		body, retry string
	}{
		{&guard.Denied{Message: "slow down", Decision: weir.Decision{RetryAfter: 1500 * time.Millisecond}}, 429, "slow down", "2"},
		{&guard.Denied{Message: "slow down", Decision: weir.Decision{RetryAfter: 2 * time.Second}}, 429, "slow down", "2"},
		{&guard.Denied{Message: "slow down", Decision: weir.Decision{RetryAfter: weir.Never - 1}}, 429, "slow down", "9223372037"},
		{&guard.Denied{Message: "too much", Decision: weir.Decision{RetryAfter: weir.Never}}, 429, "too much", ""},
		{&guard.Denied{Message: "call refused", Cause: errDown}, 503, "call refused", ""},
		{undecided, 503, "Service Unavailable", "1"},
		{invalid, 500, "Internal Server Error", ""},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Length", "1000")
		guard.Respond(w, tc.err)
		h := w.Result().Header
		if w.Code != tc.status || w.Body.String() != tc.body || h.Get("Retry-After") != tc.retry ||
			h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Length") != "" {
			t.Errorf("Respond(%v) = %d %q %v, want %d %q and Retry-After %q", tc.err, w.Code, w.Body, http.Header(h), tc.status, tc.body, tc.retry)
		}
	}
}
