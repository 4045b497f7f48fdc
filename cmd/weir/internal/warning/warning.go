// Package warning sends webhooks when the use of a budget reaches a percentage of a limit.
//
// # Guarantees
//
// Each percentage that is reached is sent once for each key and period of a limit. One of the
// processes that share the store reserves the webhook there. It commits the reservation after the
// receiver has accepted the webhook. If the process ends before that, or delivery fails, another
// settled request sends it after ReserveTTL, with the same id. So delivery is at least once while
// requests above the percentage end, and a receiver can drop repetitions by the id.
//
// Observe does not wait. Memory is bounded: see MaxPending and MaxKnown.
package warning

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

const (
	// ReserveTTL is the time after which another process sends a webhook that was not delivered.
	// It is longer than all attempts of one delivery.
	ReserveTTL = 15 * time.Minute
	// MaxPending is the maximum number of webhooks to one URL that are not delivered yet.
	MaxPending = 64
	// MaxKnown is the number of webhooks that are known to be sent. Others are found in the store.
	MaxKnown = 8192

	storeTimeout = 2 * time.Second
)

// The results of webhooks.
const (
	Sent    = "sent"    // accepted by the receiver
	Failed  = "failed"  // not accepted after all attempts
	Dropped = "dropped" // not attempted: too many are pending, the store is unavailable, or the process stops
)

// A Config configures a Sender. Store and Log are required.
type Config struct {
	// Store keeps the state of the policies.
	Store weir.Store
	Log   *slog.Logger

	// Count, if not nil, is called with the result of each webhook.
	Count func(result string)

	// Transport sends requests; an http.Transport of its own if nil.
	Transport http.RoundTripper

	// Version is the version of the program.
	Version string
}

// A Sender sends webhooks. It is safe for concurrent use.
type Sender struct {
	c      Config
	client *http.Client
	ctx    context.Context // ends when no more attempts are made
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	known   map[string]time.Time // when to ask the store again, by id
	pending map[string]int       // by URL
	work    sync.WaitGroup
}

// New returns a Sender.
func New(c Config) *Sender {
	if c.Count == nil {
		c.Count = func(string) {}
	}
	s := &Sender{c: c, client: newClient(c.Transport), known: map[string]time.Time{}, pending: map[string]int{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Observe starts to send what e, the end of a request, has reached.
func (s *Sender) Observe(e enforce.Event) {
	if e.Outcome != enforce.Settled || e.Shadow || e.Decision.Limit.IsZero() || e.Decision.Degraded != "" {
		return
	}
	c := e.Policy.Config()
	warn := c.Settle.Meter.Config().Warn
	if warn == nil || warn.Webhook == "" {
		return
	}
	used := enforce.Used(e.Decision)
	for _, at := range warn.At {
		if warn.Reached(at, used, e.Decision.Limit.Capacity()) {
			s.start(newWebhook(&c, warn, &e, at, used))
		}
	}
}

// start sends h in the background, unless it is known to be sent.
func (s *Sender) start(h *webhook) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.known[h.ID]) {
		return
	}
	if s.closed || s.pending[h.url] >= MaxPending {
		s.c.Count(Dropped)
		return
	}
	s.remember(h.ID, now.Add(ReserveTTL), now)
	s.pending[h.url]++
	s.work.Go(func() {
		until := s.send(h)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remember(h.ID, until, time.Now())
		if s.pending[h.url]--; s.pending[h.url] == 0 {
			delete(s.pending, h.url)
		}
	})
}

// remember records until when id needs no attempt. It requires mu.
func (s *Sender) remember(id string, until, now time.Time) {
	if len(s.known) >= MaxKnown {
		for other, t := range s.known {
			if !now.Before(t) {
				delete(s.known, other)
			}
		}
		if len(s.known) >= MaxKnown {
			clear(s.known)
		}
	}
	s.known[id] = until
}

// send reserves and delivers h. It returns the time before which h needs no further attempt.
func (s *Sender) send(h *webhook) (until time.Time) {
	reservation := weir.Request{Verb: weir.Reserve, Key: h.Policy + "~warn|" + h.ID, Limit: h.once, N: 1, ID: rand.Text(), TTL: ReserveTTL}
	d, err := s.do(reservation)
	switch {
	case err != nil:
		s.c.Count(Dropped)
		s.c.Log.Warn("webhook not sent: store unavailable", "policy", h.Policy, "threshold", h.Threshold, "error", err)
		return time.Now().Add(storeTimeout)
	case !d.OK: // sent, or another process sends it
		return time.Now().Add(d.RetryAfter)
	}
	if err := s.deliver(h); err != nil {
		s.c.Count(Failed)
		s.c.Log.Warn("webhook not delivered", "policy", h.Policy, "threshold", h.Threshold, "id", h.ID, "error", err)
		return time.Now().Add(ReserveTTL)
	}
	s.c.Count(Sent)
	reservation.Verb = weir.Commit
	if _, err := s.do(reservation); err != nil && !errors.Is(err, weir.ErrNoReservation) {
		s.c.Log.Warn("webhook may be repeated: store unavailable", "policy", h.Policy, "threshold", h.Threshold, "id", h.ID, "error", err)
	}
	return time.Now().Add(d.ResetAfter)
}

func (s *Sender) do(r weir.Request) (weir.Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), storeTimeout)
	defer cancel()
	return s.c.Store.Do(ctx, r)
}

// Close waits for the webhooks that are being sent, until ctx ends. Observe then starts none.
func (s *Sender) Close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	s.work.Wait()
	s.cancel()
	s.client.CloseIdleConnections()
}

// A webhook is the body of a request to a receiver, in JSON.
type webhook struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Time      time.Time `json:"time"` // of the store
	Budget    string    `json:"budget"`
	Level     string    `json:"level"`
	Policy    string    `json:"policy"`
	Key       []string  `json:"key"`
	Threshold int       `json:"threshold"`
	Used      int64     `json:"used"`
	Limit     int64     `json:"limit"`
	Unit      string    `json:"unit"`
	PeriodEnd time.Time `json:"period_end"`

	url    string
	secret []byte
	once   weir.Limit // of one in a period
	body   []byte
}

func newWebhook(c *policy.Config, warn *budget.Warning, e *enforce.Event, at int, used int64) *webhook {
	d := e.Decision
	once, end := period(d)
	id := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%d", e.Key, d.Limit.Name(), at, end.UnixMicro()))
	h := &webhook{
		ID: fmt.Sprintf("%x", id[:16]), Type: "budget.threshold", Time: d.At.UTC(), Budget: warn.Budget, Level: warn.Level(c.Name), Policy: c.Name,
		Key: values(c.Key, e.Key), Threshold: at, Used: used, Limit: d.Limit.Capacity(), Unit: c.Settle.Quota(), PeriodEnd: end.UTC(),
		url: warn.Webhook, secret: warn.Key(), once: once,
	}
	h.body, _ = json.Marshal(h) // has only texts, numbers and times
	return h
}

// period returns a limit of one in the period of d, and the end of that period. Limits without
// windows have periods from the epoch on.
func period(d weir.Decision) (once weir.Limit, end time.Time) {
	end = d.At.Add(d.ResetAfter)
	config, ok := d.Limit.Config().(weir.FixedWindow)
	if !ok {
		p := d.Limit.Period()
		config = weir.FixedWindow{Period: p}
		end = time.UnixMicro(d.At.UnixMicro() - d.At.UnixMicro()%p.Microseconds() + p.Microseconds())
	}
	config.Count = 1
	once, _ = weir.NewLimit(config) // valid: that of a valid limit with another count
	return once, end
}
