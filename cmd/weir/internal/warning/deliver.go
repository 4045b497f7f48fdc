package warning

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	attemptTimeout = 10 * time.Second
	firstRetry     = time.Second
	maxRetry       = time.Minute
	maxTries       = 8
	maxElapsed     = 5 * time.Minute
)

// newClient returns a client that follows no redirect: the receiver could otherwise choose where
// the program sends requests.
func newClient(t http.RoundTripper) *http.Client {
	if t == nil {
		t = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TLSHandshakeTimeout: 5 * time.Second,
			MaxConnsPerHost: 4, MaxIdleConns: 16, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		}
	}
	return &http.Client{
		Transport: t, Timeout: attemptTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// deliver sends h until the receiver accepts it.
func (s *Sender) deliver(h *webhook) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = firstRetry, 2, maxRetry
	_, err := backoff.Retry(s.ctx, func() (struct{}, error) { return struct{}{}, s.attempt(h) },
		backoff.WithBackOff(b), backoff.WithMaxTries(maxTries), backoff.WithMaxElapsedTime(maxElapsed))
	return err
}

// attempt sends h once. An error that a retry does not change is backoff.Permanent.
func (s *Sender) attempt(h *webhook) error {
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, h.url, bytes.NewReader(h.body))
	if err != nil {
		return backoff.Permanent(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "weir/" + cmp.Or(s.c.Version, "unknown"), "Idempotency-Key": h.ID,
		"Webhook-Id": h.ID, "Webhook-Timestamp": now, "Webhook-Signature": sign(h.secret, h.ID, now, h.body),
	} {
		r.Header.Set(name, value)
	}
	res, err := s.client.Do(r)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err // without the URL, which may have a token
		}
		if s.ctx.Err() != nil {
			return backoff.Permanent(context.Cause(s.ctx))
		}
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
	res.Body.Close()
	if res.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("status %d, want 200 to 299", res.StatusCode)
	switch after, _ := strconv.Atoi(res.Header.Get("Retry-After")); {
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		if after > 0 && time.Duration(after)*time.Second <= maxRetry {
			return fmt.Errorf("%w: %w", err, backoff.RetryAfter(after))
		}
		return err
	case res.StatusCode/100 == 5 || res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusTooEarly:
		return err
	}
	return backoff.Permanent(err)
}

// sign returns the signature of a body by https://www.standardwebhooks.com.
func sign(secret []byte, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	fmt.Fprintf(h, "%s.%s.", id, timestamp)
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
