package weirconnect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/gate"
	"github.com/floodweir/weir/httplimit"
)

const (
	retryAfter = "Retry-After"
	pushback   = "Grpc-Retry-Pushback-Ms"

	// retryUndecided is when to come back after the store made no decision.
	retryUndecided = time.Second
	// maxPushback is the longest that a client is told to wait by itself.
	maxPushback = time.Minute
)

// items are what was decided under the enforced policies.
func items(p *gate.Pass) (items []httplimit.Item, degraded weir.Degraded) {
	switch p.Outcome() {
	case gate.FailedOpen:
		return nil, weir.FailedOpen
	case gate.FailedClosed:
		return nil, weir.FailedClosed
	}
	asks := p.Asks()
	for i := range asks {
		a := &asks[i]
		ds := p.Decisions(a)
		for j, d := range ds {
			if d.Degraded != "" && degraded != weir.FailedLocal {
				degraded = d.Degraded
			}
			if d.Limit.IsZero() {
				continue // let through undecided
			}
			name := a.Policy.Name()
			if len(ds) > 1 {
				name += "/" + strconv.Itoa(j+1)
			}
			items = append(items, httplimit.Item{Name: name, Decision: d})
		}
	}
	return items, degraded
}

// describe sets the fields about what was decided.
func (s *Server) describe(h http.Header, items []httplimit.Item, degraded weir.Degraded) {
	s.c.Fields.Set(h, items...)
	if degraded != "" && s.c.Fields != httplimit.NoFields {
		h.Set(httplimit.DegradedField, string(degraded))
	}
}

// refusal is how a call ends that p did not let pass.
func (s *Server) refusal(ctx context.Context, p *gate.Pass, protocol string) error {
	if p.Outcome() != gate.Denied && ctx.Err() != nil {
		return ended(ctx)
	}
	items, degraded := items(p)
	if p.Outcome() != gate.Denied {
		err := errorOf(connect.CodeUnavailable, "rate limits could not be decided: "+again(retryUndecided),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(retryUndecided)})
		s.describe(err.Meta(), items, degraded)
		tellRetry(err.Meta(), retryUndecided, protocol)
		return err
	}
	retry := s.jittered(p.Decision().RetryAfter)
	quota := &errdetails.QuotaFailure{}
	for _, it := range items {
		if !it.Decision.OK {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: it.Name, Description: "denied by policy " + it.Name})
		}
	}
	details := []proto.Message{quota}
	if retry != weir.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	text := "rate limited: "
	if by := p.Denier(); by != nil {
		text = fmt.Sprintf("rate limited by policy %s: ", by.Name())
	}
	err := errorOf(connect.CodeResourceExhausted, text+again(retry), details...)
	s.describe(err.Meta(), items, degraded)
	tellRetry(err.Meta(), retry, protocol)
	return err
}

func again(retry time.Duration) string {
	if retry == weir.Never {
		return "it would never be admitted"
	}
	return fmt.Sprintf("try again in %v", retry)
}

func errorOf(code connect.Code, text string, details ...proto.Message) *connect.Error {
	e := connect.NewError(code, errors.New(text))
	for _, d := range details {
		if detail, err := connect.NewErrorDetail(d); err == nil { // what cannot be marshalled is left out
			e.AddDetail(detail)
		}
	}
	return e
}

// ended is how a call ends whose context, which is ctx, has ended.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	}
	return connect.NewError(connect.CodeCanceled, ctx.Err())
}

// jittered is a time after which to retry, never earlier than what it was.
func (s *Server) jittered(d time.Duration) time.Duration {
	if s.c.RetryJitter > 0 && d < weir.Never-s.c.RetryJitter {
		d += rand.N(s.c.RetryJitter + 1)
	}
	return d
}

// tellRetry says in metadata when to come back.
func tellRetry(h http.Header, d time.Duration, protocol string) {
	if d != weir.Never {
		h.Set(retryAfter, strconv.FormatInt(max(1, ceil(d, time.Second)), 10))
	}
	switch {
	case protocol == connect.ProtocolConnect: // it has no retries of its own
	case d > maxPushback:
		h.Set(pushback, "-1")
	default:
		h.Set(pushback, strconv.FormatInt(max(1, ceil(d, time.Millisecond)), 10))
	}
}

// ceil is d in whole units, rounded up.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
