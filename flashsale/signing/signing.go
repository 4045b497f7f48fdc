// Package signing signs and verifies requests as Standard Webhooks does: HMAC-SHA-256 over
// id.timestamp.body, with several valid secrets while one is replaced.
//
//	signing.Sign(r.Header, id, time.Now(), body, secret)
//	id, err := signing.Verify(r.Header, body, time.Now(), secret)
//
// The headers are webhook-id, webhook-timestamp (seconds) and webhook-signature, a list of
// "v1," and base64 separated by spaces. See https://www.standardwebhooks.com.
package signing

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Tolerance bounds the difference between the time of a signature and now.
const Tolerance = 5 * time.Minute

// ErrForged means that no secret has signed a request, or not within Tolerance.
var ErrForged = errors.New("signing: signature does not match, or is too old")

const prefix = "whsec_"

// Secret is a shared secret of 24 to 64 bytes.
type Secret []byte

// New returns a random secret of 32 bytes.
func New() Secret {
	s := make(Secret, 32)
	rand.Read(s) // never fails
	return s
}

// Parse reads the text of a secret: whsec_ and base64.
func Parse(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), prefix)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) < 24 || len(raw) > 64 {
		return nil, errors.New("signing: secret: want whsec_ and base64 of 24 to 64 bytes") // the value is secret
	}
	return raw, nil
}

// Text returns the text that Parse reads.
func (s Secret) Text() string { return prefix + base64.StdEncoding.EncodeToString(s) }

// String hides the secret, so that no log has it.
func (s Secret) String() string { return prefix + "…" }

// webhook returns the library's form of the secret.
func (s Secret) webhook() *standard.Webhook {
	w, _ := standard.NewWebhookRaw(s) // never fails
	return w
}

// Sign sets the headers of a request with this body. id identifies the message and is the same
// when it is sent again. Every secret signs.
func Sign(h http.Header, id string, at time.Time, body []byte, secrets ...Secret) {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		all[i], _ = s.webhook().Sign(id, at, body) // never fails
	}
	h.Set(standard.HeaderWebhookID, id)
	h.Set(standard.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standard.HeaderWebhookSignature, strings.Join(all, " "))
}

// Verify returns the ID of a message that one of the secrets has signed at most Tolerance ago.
// Otherwise its error wraps ErrForged.
func Verify(h http.Header, body []byte, now time.Time, secrets ...Secret) (id string, err error) {
	for _, name := range []string{standard.HeaderWebhookID, standard.HeaderWebhookTimestamp, standard.HeaderWebhookSignature} {
		if v := h.Values(name); len(v) != 1 || v[0] == "" || len(v[0]) > 1024 {
			return "", fmt.Errorf("%w: %s: want one", ErrForged, name)
		}
	}
	stamp := h.Get(standard.HeaderWebhookTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%w: webhook-timestamp: got %.30q, want seconds", ErrForged, stamp)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Tolerance || age < -Tolerance {
		return "", fmt.Errorf("%w: webhook-timestamp: %v from now, want at most %v", ErrForged, age.Round(time.Second), Tolerance)
	}
	for _, s := range secrets {
		if s.webhook().VerifyIgnoringTimestamp(body, h) == nil { // the time is checked above, against now
			return h.Get(standard.HeaderWebhookID), nil
		}
	}
	return "", ErrForged
}
