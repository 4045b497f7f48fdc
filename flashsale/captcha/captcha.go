// Package captcha verifies that a visitor solved a captcha before a ticket is made.
//
//	challenge, err := captcha.NewTurnstile(captcha.TurnstileConfig{Secret: secret})
//	…
//	err = challenge.Verify(ctx, sale, user, token, addr)
//
// An error that wraps [ErrRejected] means that the visitor has to solve the captcha again. Any
// other error means that the provider did not decide. The caller then requires a proof of work
// instead, so that a failure of the provider neither stops a sale nor lifts its protection.
package captcha

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Challenge verifies captchas. It must be safe for concurrent use.
type Challenge interface {
	// Verify returns nil if the user at addr solved the captcha of token for a ticket of the
	// sale. A token that is missing, invalid, expired or used before is ErrRejected.
	Verify(ctx context.Context, sale, user, token string, addr netip.Addr) error
}

// ErrRejected is wrapped by errors about a token that the provider does not accept.
var ErrRejected = errors.New("captcha: token rejected")

// MaxToken is the maximum length of a token.
const MaxToken = 2048

// TurnstileURL is the default of TurnstileConfig.URL.
const TurnstileURL = "https://challenges.cloudflare.com/turnstile/v0/siteverify"

// TurnstileScript is the address of the script that draws Turnstile's widget.
const TurnstileScript = "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit"

// TurnstileConfig configures a Turnstile. Secret is required.
type TurnstileConfig struct {
	Secret string

	// URL is the address of siteverify; TurnstileURL if empty.
	URL string

	// Hostname is the host on which the widget must have been solved; any if empty.
	Hostname string

	// Client sends the requests; one with a timeout of 2 s if nil.
	Client *http.Client
}

// Turnstile verifies tokens of Cloudflare Turnstile. A token is valid for 300 s and once. The
// widget's action must be the ID of the sale.
type Turnstile struct{ config TurnstileConfig }

// NewTurnstile returns a Turnstile.
func NewTurnstile(c TurnstileConfig) (*Turnstile, error) {
	if c.Secret == "" {
		return nil, errors.New("captcha: TurnstileConfig.Secret: got none, want the secret of the widget")
	}
	if c.URL == "" {
		c.URL = TurnstileURL
	}
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("captcha: TurnstileConfig.URL: got %q, want an address with http or https", c.URL)
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 2 * time.Second}
	}
	return &Turnstile{c}, nil
}

// ourFault lists the error codes that are not about the token.
var ourFault = []string{"missing-input-secret", "invalid-input-secret", "bad-request", "internal-error"}

// Verify implements Challenge.
func (t *Turnstile) Verify(ctx context.Context, sale, _, token string, addr netip.Addr) error {
	if token == "" || len(token) > MaxToken {
		return fmt.Errorf("%w: got %d bytes, want 1 to %d", ErrRejected, len(token), MaxToken)
	}
	form := url.Values{"secret": {t.config.Secret}, "response": {token}}
	if addr.IsValid() {
		form.Set("remoteip", addr.String())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.config.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("captcha: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := t.config.Client.Do(r)
	if err != nil {
		return fmt.Errorf("captcha: siteverify: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	var said struct {
		Success  bool     `json:"success"`
		Codes    []string `json:"error-codes"`
		Hostname string   `json:"hostname"`
		Action   string   `json:"action"`
	}
	if res.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("captcha: siteverify: got %s, want an outcome", res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&said); err != nil {
		return fmt.Errorf("captcha: siteverify: %w", err)
	}
	switch {
	case slices.ContainsFunc(said.Codes, func(code string) bool { return slices.Contains(ourFault, code) }):
		return fmt.Errorf("captcha: siteverify: %.100q", said.Codes)
	case !said.Success:
		return fmt.Errorf("%w: %.100q", ErrRejected, said.Codes)
	case t.config.Hostname != "" && said.Hostname != t.config.Hostname:
		return fmt.Errorf("%w: solved on %.100q, want %q", ErrRejected, said.Hostname, t.config.Hostname)
	case said.Action != sale:
		return fmt.Errorf("%w: solved for %.100q, want sale %q", ErrRejected, said.Action, sale)
	}
	return nil
}
