package signing_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/signing"
)

// TestVector checks a signature against the example of the specification of Standard Webhooks.
func TestVector(t *testing.T) {
	secret, err := signing.Parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	signing.Sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), secret)
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

// TestVerify checks what is accepted: a recent signature by any valid secret, of this message.
func TestVerify(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a, b, other := signing.New(), signing.New(), signing.New()
	body := []byte(`{"kind":"paid"}`)
	for name, c := range map[string]struct {
		change func(h http.Header, body *[]byte)
		signed []signing.Secret
		at     time.Duration
		ok     bool
	}{
		"new secret":      {signed: []signing.Secret{a}, ok: true},
		"old secret":      {signed: []signing.Secret{b}, ok: true},
		"both":            {signed: []signing.Secret{other, a}, ok: true},
		"another secret":  {signed: []signing.Secret{other}},
		"none":            {},
		"five minutes":    {signed: []signing.Secret{a}, at: -5 * time.Minute, ok: true},
		"stale":           {signed: []signing.Secret{a}, at: -5*time.Minute - time.Second},
		"from the future": {signed: []signing.Secret{a}, at: 5*time.Minute + time.Second},
		"another body":    {signed: []signing.Secret{a}, change: func(_ http.Header, body *[]byte) { *body = []byte(`{"kind":"Paid"}`) }},
		"another ID":      {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) { h.Set("webhook-id", "msg-2") }},
		"two IDs":         {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) { h.Add("webhook-id", "msg-2") }},
		"another time": {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) {
			h.Set("webhook-timestamp", fmt.Sprint(now.Unix()+1))
		}},
		"no time":    {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) { h.Set("webhook-timestamp", "x") }},
		"huge time":  {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) { h.Set("webhook-timestamp", "9223372036854775807") }},
		"no scheme":  {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) { h.Set("webhook-signature", h.Get("webhook-signature")[3:]) }},
		"not base64": {signed: []signing.Secret{a}, change: func(h http.Header, _ *[]byte) { h.Set("webhook-signature", "v1,%%%") }},
	} {
		h, sent := http.Header{}, body
		signing.Sign(h, "msg-1", now.Add(c.at), body, c.signed...)
		if c.change != nil {
			c.change(h, &sent)
		}
		id, err := signing.Verify(h, sent, now, a, b)
		if c.ok && (err != nil || id != "msg-1") || !c.ok && !errors.Is(err, signing.ErrForged) {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
}

// TestParse checks that a secret is read as it is printed, and that others are refused.
func TestParse(t *testing.T) {
	s := signing.New()
	if got, err := signing.Parse(" " + s.Text() + "\n"); err != nil || string(got) != string(s) {
		t.Errorf("Parse: %v", err)
	}
	if fmt.Sprint(s) != "whsec_…" {
		t.Error("a log would show the secret")
	}
	for _, text := range []string{"", "whsec_", s.Text()[6:], "whsec_AAAA", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), "whsec_%"} {
		if _, err := signing.Parse(text); err == nil {
			t.Errorf("Parse(%q) succeeds", text)
		}
	}
}
