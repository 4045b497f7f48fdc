package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/storetest"
)

// versioned returns a middleware with one limit, as a process of its own would have it, that asks
// whether a request is admitted.
func versioned(t *testing.T, h storetest.Harness, limit string) func() bool {
	t.Helper()
	p, err := policy.New(policy.Config{
		Name: "p", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: []weir.Limit{weir.MustLimit(limit)}, OnStoreError: policy.Closed,
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(h.Store, set, httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inside := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func() bool {
		w := httptest.NewRecorder()
		inside.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests {
			t.Fatalf("%s: %d %s", limit, w.Code, w.Body)
		}
		return w.Code == http.StatusOK
	}
}

// TestRedisVersions has two processes with different versions of a policy decide in turn. They
// admit what the larger limit admits.
func TestRedisVersions(t *testing.T) {
	t.Parallel()
	url := "redis://" + redistest.Start(t).Addr
	for _, tc := range []struct {
		one, two string
		most     int
	}{
		{"100/h", "101/h", 101},
		{"100/2h burst 50", "100/2h burst 60", 60},
		{"100/h fixed_window", "101/h fixed_window", 101},
		{"100/h sliding_window", "101/h sliding_window", 101},
		{"100/h sliding_log", "101/h sliding_log", 101},
		{"100/h leaky_bucket burst 50", "101/h leaky_bucket burst 50", 51},
	} {
		t.Run(tc.two, func(t *testing.T) {
			h := openRedis(openConn(t, "rueidis", url))(t)
			h.SetNow(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
			admitted := 0
			processes := []func() bool{versioned(t, h, tc.one), versioned(t, h, tc.two)}
			for i := range 300 {
				if processes[i%2]() {
					admitted++
				}
			}
			if admitted != tc.most {
				t.Errorf("%d admitted, want %d", admitted, tc.most)
			}
		})
	}
}

// TestRedisRaisedOften raises a rate by one every 50 minutes for a day, each time in a new
// process. It asks three times a minute, and the requests that are due are admitted.
func TestRedisRaisedOften(t *testing.T) {
	t.Parallel()
	h := openRedis(openConn(t, "rueidis", "redis://"+redistest.Start(t).Addr))(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	admitted, due, raised := -100, 0.0, 0
	var process func() bool
	for second := 0; second < 24*3600; second += 20 {
		h.SetNow(start.Add(time.Duration(second) * time.Second).UnixMicro())
		if second%3000 == 0 {
			raised = second / 3000
			process = versioned(t, h, fmt.Sprintf("%d/h", 100+raised))
		}
		for i := 0; i == 0 || second == 0 && i < 200; i++ { // first the burst
			if process() {
				admitted++
			}
		}
		due += float64(100+raised) / 180
	}
	// Each raise adds one to the burst too.
	if least := int(due) - 1; admitted < least || admitted > least+2+raised {
		t.Errorf("%d admitted in a day, want %d to %d", admitted, least, least+2+raised)
	}
}
