package captcha_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/captcha"
)

// siteverify is a fake of Turnstile's endpoint. Each token is valid once.
func siteverify(used map[string]bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := r.PostFormValue("response")
		switch {
		case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded":
			fmt.Fprint(w, `{"success":false,"error-codes":["bad-request"]}`)
		case r.PostFormValue("secret") != "secret":
			fmt.Fprint(w, `{"success":false,"error-codes":["invalid-input-secret"]}`)
		case token == "down":
			w.WriteHeader(http.StatusBadGateway)
		case token == "nonsense":
			fmt.Fprint(w, "<html>")
		case token == "internal":
			fmt.Fprint(w, `{"success":false,"error-codes":["internal-error"]}`)
		case used[token]:
			fmt.Fprint(w, `{"success":false,"error-codes":["timeout-or-duplicate"]}`)
		case !strings.HasPrefix(token, "good"):
			fmt.Fprint(w, `{"success":false,"error-codes":["invalid-input-response"]}`)
		case r.PostFormValue("remoteip") != "192.0.2.1":
			fmt.Fprint(w, `{"success":false,"error-codes":["another-address"]}`)
		default:
			used[token] = true
			host, action := "shop.example", "a1"
			if token == "good-elsewhere" {
				host = "other.example"
			}
			if token == "good-other-sale" {
				action = "a2"
			}
			fmt.Fprintf(w, `{"success":true,"error-codes":[],"hostname":%q,"action":%q}`, host, action)
		}
	}
}

func TestTurnstile(t *testing.T) {
	server := httptest.NewServer(siteverify(map[string]bool{}))
	defer server.Close()
	challenge, err := captcha.NewTurnstile(captcha.TurnstileConfig{Secret: "secret", URL: server.URL, Hostname: "shop.example"})
	if err != nil {
		t.Fatal(err)
	}
	const accepted, rejected, undecided = "accepted", "rejected", "undecided"
	outcome := func(c captcha.Challenge, token string) string {
		switch err := c.Verify(t.Context(), "a1", "user", token, netip.MustParseAddr("192.0.2.1")); {
		case err == nil:
			return accepted
		case errors.Is(err, captcha.ErrRejected):
			return rejected
		}
		return undecided
	}
	for _, c := range []struct{ token, want string }{
		{"good-1", accepted}, {"good-1", rejected}, {"bad", rejected}, {"", rejected}, {strings.Repeat("x", captcha.MaxToken+1), rejected},
		{"good-elsewhere", rejected}, {"good-other-sale", rejected}, {"down", undecided}, {"nonsense", undecided}, {"internal", undecided},
	} {
		if got := outcome(challenge, c.token); got != c.want {
			t.Errorf("token %.20q: %s, want %s", c.token, got, c.want)
		}
	}
	wrong, err := captcha.NewTurnstile(captcha.TurnstileConfig{Secret: "other", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome(wrong, "good-2"); got != undecided {
		t.Errorf("with a wrong secret: %s, want %s", got, undecided)
	}
	server.Close()
	if got := outcome(challenge, "good-3"); got != undecided {
		t.Errorf("without a provider: %s, want %s", got, undecided)
	}
	for _, c := range []captcha.TurnstileConfig{{}, {Secret: "s", URL: "ftp://x"}, {Secret: "s", URL: "::"}} {
		if _, err := captcha.NewTurnstile(c); err == nil {
			t.Errorf("NewTurnstile(%+v) succeeds", c)
		}
	}
}
