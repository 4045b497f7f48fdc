package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestCountOfACanceledRequest checks that a client that disconnects, or breaks off its body, does
// not avoid the charge.
func TestCountOfACanceledRequest(t *testing.T) {
	for _, tc := range []struct {
		name  string
		leave string // before or after the answer; or its body breaks off, or is closed
		wrote int    // 0: it panics
		count policy.Count
		want  int64
	}{
		{"gone", "before", 502, policy.CountSuccesses, 1},
		{"gone", "before", 502, policy.CountFailures, 1},
		{"gone", "before", 404, policy.CountSuccesses, 1},
		{"gone", "before", 200, policy.CountSuccesses, 1},
		{"gone", "before", 200, policy.CountFailures, 0},
		{"gone", "before", 0, policy.CountSuccesses, 1},
		{"gone", "before", 0, policy.CountFailures, 1},
		{"gone", "after", 401, policy.CountSuccesses, 0},
		{"gone", "after", 502, policy.CountFailures, 0},
		{"broken", "broken", 400, policy.CountSuccesses, 1},
		{"broken", "broken", 408, policy.CountFailures, 1},
		{"broken", "broken", 200, policy.CountFailures, 0},
		{"closed by the handler", "closed", 401, policy.CountSuccesses, 0},
		{"closed by the handler", "closed", 502, policy.CountFailures, 0},
		{"whole", "", 401, policy.CountSuccesses, 0},
		{"whole", "", 502, policy.CountFailures, 0},
	} {
		store := fakestore.Memory(t)
		ctx, cancel := context.WithCancel(t.Context())
		p := policy.Config{Name: "p", Limits: limits("9/h"), Count: tc.count}
		if tc.count == policy.CountFailures {
			p.Failures = [][2]int{{401, 401}}
		}
		h := serving(t, canceling(store), set(t, p), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
			switch tc.leave {
			case "before":
				cancel()
			case "closed":
				_ = r.Body.Close()
			}
			_, _ = io.ReadAll(r.Body)
			if tc.wrote == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(tc.wrote)
			if tc.leave == "after" {
				cancel()
			}
		})
		var body io.Reader = strings.NewReader("whole")
		if tc.leave == "broken" || tc.leave == "closed" {
			body = brokenBody{}
		}
		r := httptest.NewRequest("POST", "/", body).WithContext(ctx)
		r.RemoteAddr = peer
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		cancel()
		if got := charged(t, store, "p", "9/h"); got != tc.want {
			t.Errorf("%s %s, %d, count %s: costs %d, want %d", tc.name, tc.leave, tc.wrote, tc.count, got, tc.want)
		}
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestSettleByRange checks that a client that requests a range gets the whole response, which
// contains the cost.
func TestSettleByRange(t *testing.T) {
	store := fakestore.Memory(t)
	text := `{"text":"` + strings.Repeat("x", 100) + `","usage":{"total_tokens":42}}`
	p := policy.Config{Name: "p", Limits: limits(ample), Settle: policy.Settle{JSON: "usage.total_tokens"}}
	h := serving(t, store, set(t, p), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	})
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = peer
	r.Header.Set("Range", "bytes=0-9")
	r.Header.Set("If-Range", `"1"`)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := charged(t, store, "p", ample); got != 42 || w.Code != 200 || r.Header.Get("Range") == "" {
		t.Errorf("a part is answered with %d and costs %d, want 200 and 42, and the caller's request as it was", w.Code, got)
	}
}
