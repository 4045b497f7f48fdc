package warning_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/cmd/weir/internal/warning"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

const secret = "0123456789abcdef"

// A receiver records what it gets, and responds with statuses in order, then with 204.
type receiver struct {
	mu       sync.Mutex
	statuses []int
	retry    string // Retry-After of each error
	got      []received
	hold     chan struct{} // if not nil, responses wait for it or for the end of the request
}

type received struct {
	ID        string
	Policy    string
	Level     string
	Key       []string
	Threshold int
	Used      int64
	Limit     int64
	Unit      string
	PeriodEnd time.Time `json:"period_end"`

	at     time.Time
	header http.Header
	body   []byte
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	one := received{at: time.Now(), header: q.Header, body: body}
	_ = json.Unmarshal(body, &one)
	r.got = append(r.got, one)
	status := http.StatusNoContent
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	r.mu.Unlock()
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-q.Context().Done():
			return nil, q.Context().Err()
		}
	}
	h := http.Header{"Location": {"http://169.254.169.254/"}}
	if r.retry != "" {
		h.Set("Retry-After", r.retry)
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: q}, nil
}

// A site is some processes with one store.
type site struct {
	testing.TB
	store    weir.Store
	receiver *receiver
	counts   map[string]int
	mu       sync.Mutex
	log      bytes.Buffer
	policy   *policy.Policy
}

func newSite(t *testing.T, limit string, at ...int) *site {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	meter, err := budget.NewMeter(budget.MeterConfig{
		Unit: budget.Tokens, MaxInput: 1, MaxOutput: 1, Warn: &budget.Warning{Budget: "ai", At: at, Webhook: "https://hooks.example.com/token-in-the-path", Secret: secret},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Config{
		Name: "ai.team", Limits: []weir.Limit{weir.MustLimit(limit)}, Settle: policy.Settle{Meter: meter},
		Key: []policy.KeyPart{{Source: policy.Header, Name: "X-Team"}, {Source: policy.Header, Name: "Authorization"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &site{TB: t, store: store, receiver: &receiver{}, counts: map[string]int{}, policy: p}
}

func (s *site) process() *warning.Sender {
	return warning.New(warning.Config{
		Store: s.store, Transport: s.receiver, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Count: func(result string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counts[result]++
		},
	})
}

const key = "ai.team|3:red|7:Bearer1"

// settle charges n tokens of a key and reports that to a process.
func (s *site) settle(to *warning.Sender, key string, n int64) {
	s.Helper()
	d, err := s.store.Do(s.Context(), weir.Request{Verb: weir.Charge, Key: key, Limit: s.policy.Config().Limits[0], N: n})
	if err != nil {
		s.Fatal(err)
	}
	to.Observe(enforce.Event{Policy: s.policy, Outcome: enforce.Settled, Key: key, Cost: n, Decision: d})
	synctest.Wait()
}

func (s *site) want(what string, thresholds ...int) {
	s.Helper()
	var got []int
	for _, r := range s.receiver.got {
		got = append(got, r.Threshold)
	}
	if fmt.Sprint(got) != fmt.Sprint(thresholds) {
		s.Fatalf("%s: webhooks for %v, want %v; log: %s", what, got, thresholds, &s.log)
	}
}

// TestOnce checks that one of two processes sends each percentage, once in a period of a key, and
// what the receiver gets.
func TestOnce(t *testing.T) {
	for _, limit := range []string{"1000/h fixed_window", "1000/day calendar UTC", "1000/24h", "1000/h sliding_window"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, limit, 80, 90)
				a, b := s.process(), s.process()
				s.settle(a, key, 799)
				s.want("below")
				s.settle(a, key, 10)
				s.want("at 80 %", 80)
				s.settle(a, key, 10)
				s.settle(b, key, 10)
				s.want("again", 80)
				s.settle(b, key, 80)
				s.want("at 90 %", 80, 90)
				s.settle(a, key, 80)
				s.want("above", 80, 90)
				s.settle(b, "ai.team|4:blue|-", 800)
				s.want("another key", 80, 90, 80)

				first := s.receiver.got[0]
				if first.Policy != "ai.team" || first.Level != "team" || first.Used != 809 || first.Limit != 1000 || first.Unit != "tokens" ||
					len(first.Key) != 2 || first.Key[0] != "red" || strings.Contains(first.Key[1], "Bearer") || !strings.HasPrefix(first.Key[1], "sha256:") {
					t.Errorf("webhook %s, want the level team at 809 of 1000 with a hashed credential", first.body)
				}
				h := hmac.New(sha256.New, []byte(secret))
				fmt.Fprintf(h, "%s.%s.%s", first.header.Get("Webhook-Id"), first.header.Get("Webhook-Timestamp"), first.body)
				if want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil)); first.header.Get("Webhook-Signature") != want || first.header.Get("Idempotency-Key") != first.ID || first.ID == "" {
					t.Errorf("header %v, want the signature %s and the id", first.header, want)
				}

				time.Sleep(time.Until(first.PeriodEnd) + 25*time.Hour)
				s.settle(b, key, 850)
				s.want("next period", 80, 90, 80, 80)
				if s.receiver.got[3].ID == first.ID {
					t.Error("the id of the next period is that of the first")
				}
				a.Close(t.Context())
				b.Close(t.Context())
				if s.counts[warning.Sent] != 4 || len(s.counts) != 1 {
					t.Errorf("counts %v, want 4 sent", s.counts)
				}
			})
		})
	}
}

// TestRetries checks that errors of the receiver are retried with a growing interval, or after its
// Retry-After, and that a redirect and a client error are not.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "1000/720h fixed_window", 80)
		p := s.process()
		s.receiver.statuses = []int{500, 429, 503, 200}
		s.settle(p, key, 900)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.want("after errors", 80, 80, 80, 80)
		for i, r := range s.receiver.got {
			if r.ID != s.receiver.got[0].ID || i > 1 && r.at.Sub(s.receiver.got[i-1].at) <= s.receiver.got[1].at.Sub(s.receiver.got[0].at)/2 {
				t.Errorf("attempt %d at %v with id %s, want growing intervals and one id", i, r.at, r.ID)
			}
		}
		s.receiver.retry, s.receiver.statuses = "17", []int{503}
		s.settle(p, "ai.team|4:blue|-", 900)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.receiver.got); n != 6 || s.receiver.got[5].at.Sub(s.receiver.got[4].at) != 17*time.Second {
			t.Errorf("%d attempts, want a 6th after Retry-After", n)
		}
		for _, status := range []int{302, 404} {
			before := len(s.receiver.got)
			s.receiver.statuses = []int{status}
			k := fmt.Sprintf("ai.team|3:%d|-", status)
			s.settle(p, k, 900)
			time.Sleep(10 * time.Minute)
			s.settle(p, k, 1)
			if n := len(s.receiver.got) - before; n != 1 {
				t.Errorf("status %d: %d attempts in 10 minutes, want 1", status, n)
			}
			time.Sleep(warning.ReserveTTL)
			s.settle(p, k, 1)
			if n := len(s.receiver.got) - before; n != 2 || s.receiver.got[before].ID != s.receiver.got[before+1].ID {
				t.Errorf("status %d: %d attempts after ReserveTTL, want another with the same id", status, n)
			}
		}
		p.Close(t.Context())
		if s.counts[warning.Sent] != 4 || s.counts[warning.Failed] != 2 {
			t.Errorf("counts %v, want 4 sent and 2 failed", s.counts)
		}
		if strings.Contains(s.log.String(), "token-in-the-path") {
			t.Errorf("log %s has the URL", &s.log)
		}
	})
}

// TestBounds checks that Observe does not wait for a receiver that does not respond, that pending
// webhooks are bounded, and that Close ends with its context.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "1000/720h fixed_window", 80)
		s.receiver.hold = make(chan struct{})
		p := s.process()
		for i := range warning.MaxPending + 3 {
			s.settle(p, fmt.Sprintf("ai.team|3:%03d|-", i), 900)
		}
		if n := len(s.receiver.got); n != warning.MaxPending || s.counts[warning.Dropped] != 3 {
			t.Errorf("%d pending, counts %v, want %d and 3 dropped", n, s.counts, warning.MaxPending)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		p.Close(ctx)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("Close took %v, want the 5s of its context", took)
		}
		s.settle(p, "ai.team|3:new|-", 900)
		if s.counts[warning.Failed] != warning.MaxPending || s.counts[warning.Dropped] != 4 {
			t.Errorf("counts %v, want all pending failed, and 4 dropped", s.counts)
		}
	})
}

// TestCloseDrains checks that Close waits for a webhook that is being sent.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "1000/720h fixed_window", 80)
		s.receiver.hold = make(chan struct{})
		p := s.process()
		s.settle(p, key, 900)
		time.AfterFunc(3*time.Second, func() { close(s.receiver.hold) })
		p.Close(t.Context())
		if s.counts[warning.Sent] != 1 {
			t.Errorf("counts %v after Close, want 1 sent", s.counts)
		}
	})
}

// TestLost checks that another process sends what a process reserved and did not deliver.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "1000/720h fixed_window", 80)
		s.receiver.hold = make(chan struct{})
		lost, other := s.process(), s.process()
		s.settle(lost, key, 900)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		lost.Close(ended)
		s.receiver.hold = nil
		s.settle(other, key, 1)
		s.want("reserved by the lost process", 80)
		time.Sleep(warning.ReserveTTL)
		s.settle(other, key, 1)
		s.want("after its reservation", 80, 80)
		other.Close(t.Context())
	})
}

// TestIgnored checks that other events send nothing.
func TestIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "1000/720h fixed_window", 80)
		p := s.process()
		d, err := s.store.Do(t.Context(), weir.Request{Verb: weir.Charge, Key: key, Limit: s.policy.Config().Limits[0], N: 999})
		if err != nil {
			t.Fatal(err)
		}
		local := d
		local.Degraded = policy.Local
		for _, e := range []enforce.Event{
			{Policy: s.policy, Outcome: enforce.Admitted, Key: key, Decision: d}, {Policy: s.policy, Outcome: enforce.Settled, Key: key, Decision: d, Shadow: true},
			{Policy: s.policy, Outcome: enforce.Settled, Key: key}, {Policy: s.policy, Outcome: enforce.Settled, Key: key, Decision: local},
		} {
			p.Observe(e)
		}
		p.Close(t.Context())
		s.want("other events")
	})
}
