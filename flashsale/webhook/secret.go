package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// RotateFor is the default time for which the previous secret of an endpoint signs beside the
// new one.
const RotateFor = 24 * time.Hour

// maxURL bounds the length of the URL of an endpoint.
const maxURL = 2000

// NewSecret returns a random secret: whsec_ and 32 bytes in base64.
func NewSecret() string {
	key := make([]byte, 32)
	rand.Read(key)
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

// sign sets the three headers of a Standard Webhook, with a signature of each secret.
func sign(h http.Header, secrets []string, id string, now time.Time, body []byte) error {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		w, err := standard.NewWebhook(s)
		if err == nil {
			all[i], err = w.Sign(id, now, body)
		}
		if err != nil {
			return fmt.Errorf("webhook: sign: %w", err)
		}
	}
	h.Set(standard.HeaderWebhookID, id)
	h.Set(standard.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standard.HeaderWebhookSignature, strings.Join(all, " "))
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
