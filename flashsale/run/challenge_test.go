package run_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
)

// oneToken accepts a captcha, rejects others, and has an outage.
type oneToken struct{}

func (oneToken) Verify(_ context.Context, _, _, token string, _ netip.Addr) error {
	switch token {
	case "solved":
		return nil
	case "outage":
		return errors.New("the provider is unavailable")
	}
	return fmt.Errorf("oneToken: %w", captcha.ErrRejected)
}

// TestChallenge checks that the captcha of a program that embeds the shop applies to new tickets.
func TestChallenge(t *testing.T) {
	s := start(t, run.Config{Data: t.TempDir(), Mock: true, Challenge: oneToken{}})
	now := time.Now().Truncate(time.Millisecond)
	if err := s.AddMerchant(t.Context(), "mei", "a long password"); err != nil {
		t.Fatal(err)
	}
	made, err := s.Merchants.Create(t.Context(), "mei", "", sale.Draft{SKU: "cup", Title: "Cup", Stock: 9, StartsAt: now, EndsAt: now.Add(time.Hour)}.WithDefaults())
	if err == nil {
		_, err = s.Merchants.Expose(t.Context(), "mei", made.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	post := func(path, body string) (status int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.ShopURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Flashsale-Request", "1")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	post("/api/session", "{}")
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{}`, 403, `"reason":"captcha_due"`},
		{`{"captcha":"guessed"}`, 403, `"reason":"captcha_due"`},
		{`{"captcha":"outage"}`, 403, `"reason":"work_due"`},
		{`{"captcha":"solved"}`, 201, `"state":"admitted"`},
	} {
		if status, text := post("/api/sales/"+made.ID+"/ticket", c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.body, status, text, c.status, c.want)
		}
	}
}
