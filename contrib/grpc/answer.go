package weirgrpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/gate"
	"github.com/floodweir/weir/httplimit"
)

const (
	retryAfter = "retry-after"
	pushback   = "grpc-retry-pushback-ms"

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

// describe is the metadata about what was decided; nil if there is nothing to say.
func (s *Server) describe(items []httplimit.Item, degraded weir.Degraded) metadata.MD {
	if s.c.Fields == httplimit.NoFields || len(items) == 0 && degraded == "" {
		return nil
	}
	h := http.Header{}
	s.c.Fields.Set(h, items...)
	md := make(metadata.MD, len(h)+1)
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	if degraded != "" {
		md.Set(httplimit.DegradedField, string(degraded))
	}
	return md
}

// refusal is how a call ends that p did not let pass, and its trailers.
func (s *Server) refusal(ctx context.Context, p *gate.Pass) (metadata.MD, error) {
	items, degraded := items(p)
	md := metadata.Join(s.describe(items, degraded))
	if p.Outcome() != gate.Denied {
		if err := ctx.Err(); err != nil {
			return md, status.FromContextError(err).Err()
		}
		s.tellRetry(md, retryUndecided)
		return md, statusOf(codes.Unavailable, "rate limits could not be decided: "+again(retryUndecided),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(retryUndecided)})
	}
	retry := s.jittered(p.Decision().RetryAfter)
	s.tellRetry(md, retry)
	quota := &errdetails.QuotaFailure{}
	for _, it := range items {
		if !it.Decision.OK {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: it.Name, Description: "denied by policy " + it.Name})
		}
	}
	details := []protoadapt.MessageV1{quota}
	if retry != weir.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	text := "rate limited: "
	if by := p.Denier(); by != nil {
		text = fmt.Sprintf("rate limited by policy %s: ", by.Name())
	}
	return md, statusOf(codes.ResourceExhausted, text+again(retry), details...)
}

func again(retry time.Duration) string {
	if retry == weir.Never {
		return "it would never be admitted"
	}
	return fmt.Sprintf("try again in %v", retry)
}

func statusOf(code codes.Code, text string, details ...protoadapt.MessageV1) error {
	st := status.New(code, text)
	if with, err := st.WithDetails(details...); err == nil { // what cannot be marshalled is left out
		st = with
	}
	return st.Err()
}

// jittered is a time after which to retry, never earlier than what it was.
func (s *Server) jittered(d time.Duration) time.Duration {
	if s.c.RetryJitter > 0 && d < weir.Never-s.c.RetryJitter {
		d += rand.N(s.c.RetryJitter + 1)
	}
	return d
}

// tellRetry says in metadata when to come back.
func (s *Server) tellRetry(md metadata.MD, d time.Duration) {
	if d != weir.Never {
		md.Set(retryAfter, strconv.FormatInt(max(1, ceil(d, time.Second)), 10))
	}
	if d > maxPushback {
		md.Set(pushback, "-1")
		return
	}
	md.Set(pushback, strconv.FormatInt(max(1, ceil(d, time.Millisecond)), 10))
}

// ceil is d in whole units, rounded up.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
