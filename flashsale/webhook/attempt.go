package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// retries holds the wait after each failed attempt. After one more failure the event is a dead
// letter.
var retries = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	maxResponse = 1 << 10        // bytes of a response that are stored
	maxRetry    = 24 * time.Hour // bound of Retry-After
)

// outcome is the outcome of an attempt, for the metrics.
type outcome string

const (
	delivered outcome = "delivered"
	refused   outcome = "refused" // a status other than 2xx
	timedOut  outcome = "timeout"
	private   outcome = "private" // the address is not public
	failed    outcome = "failed"  // any other error of the connection
)

// attempt sends an event once and returns the result.
func (d *Deliverer) attempt(e Endpoint, l Delivery) Result {
	begin := d.c.Clock()
	a, retryAfter, err := d.send(e, &l, begin)
	if err != nil && d.ctx.Err() != nil { // Stop aborted it
		l.Due = begin
		return Result{Delivery: l}
	}
	end := d.c.Clock()
	a.At, a.Duration = begin, end.Sub(begin)
	if err != nil {
		a.Error = reason(err)
	}
	d.metrics.count(outcomeOf(a.Status, err), a.Duration)
	l.Attempts++
	r := Result{Attempt: a, Gone: a.Status == http.StatusGone}
	switch {
	case a.Status >= 200 && a.Status < 300:
		l.State = Delivered
	case l.Attempts > len(retries):
		l.State = Dead
		d.c.Log.Warn("webhooks: dead letter", "endpoint", e.ID, "event", l.Event, "status", a.Status, "error", a.Error)
	default:
		wait := retries[l.Attempts-1]
		l.Due = end.Add(max(time.Duration(float64(wait)*(0.8+0.4*rand.Float64())), retryAfter))
	}
	if r.Gone {
		d.c.Log.Warn("webhooks: endpoint disabled", "endpoint", e.ID, "status", a.Status)
	}
	r.Delivery = l
	return r
}

// send sends the request of an event. An error means that there is no complete response.
func (d *Deliverer) send(e Endpoint, l *Delivery, now time.Time) (a Attempt, retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	body := []byte(l.Body)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return a, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "flashsale-webhooks/1")
	if err := sign(r.Header, e.Secrets, l.Event, now, body); err != nil {
		return a, 0, err
	}
	res, err := d.c.Client.Do(r)
	if err != nil {
		return a, 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	a.Status, a.Response = res.StatusCode, string(text)
	if a.Status >= 200 && a.Status < 300 {
		err = nil // the receiver has accepted the event, whatever follows
	}
	return a, retryAfterOf(res.Header.Get("Retry-After"), now), err
}

// retryAfterOf parses a Retry-After header, in seconds or as a date. The result is at most
// maxRetry.
func retryAfterOf(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	wait := time.Duration(0)
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetry)
}

// outcomeOf returns the outcome of an attempt.
func outcomeOf(status int, err error) outcome {
	var timeout interface{ Timeout() bool }
	switch {
	case status >= 200 && status < 300:
		return delivered
	case errors.As(err, new(*addressError)):
		return private
	case errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	case err != nil:
		return failed
	}
	return refused
}

// reason returns an error for the merchant, without the URL, which the merchant knows.
func reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if a, ok := errors.AsType[*addressError](err); ok {
		return a.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no complete response within %v", timeout)
	}
	return fmt.Sprintf("%.300s", err.Error())
}
