package webhook

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
)

// RotateFor is the default time for which the previous secret of an endpoint signs beside the
// new one.
const RotateFor = 24 * time.Hour

// maxURL bounds the length of the URL of an endpoint.
const maxURL = 2000

// sign sets the three headers of a Standard Webhook, with a signature of each secret.
func sign(h http.Header, secrets []string, id string, now time.Time, body []byte) error {
	keys := make([]signing.Secret, len(secrets))
	for i, text := range secrets {
		var err error
		if keys[i], err = signing.Parse(text); err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
	}
	signing.Sign(h, id, now, body, keys...)
	return nil
}

// CheckURL returns an error that wraps sale.ErrInvalid if text is not the URL of an endpoint:
// https, or http to an address that is not public. It resolves no name.
func CheckURL(text string) error {
	bad := func(want string) error {
		return &sale.FieldError{Field: "url", Value: fmt.Sprintf("%.200q", text), Want: want}
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return bad(fmt.Sprintf("an absolute URL of up to %d bytes, such as https://shop.example/webhooks", maxURL))
	}
	switch {
	case u.User != nil:
		return bad("a URL without a user and a password: requests are signed")
	case u.Fragment != "":
		return bad("a URL without a fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		a, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" || err == nil && !isPublic(a) {
			return nil
		}
	}
	return bad("https, or http with a private address")
}
