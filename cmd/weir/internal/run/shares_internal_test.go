package run

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/weirfile"
)

// divideBy makes a store decide by the shares of a file.
func divideBy(t *testing.T, s *stores, log *slog.Logger, text string) {
	t.Helper()
	f, err := weirfile.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s.divide(&generation{config: &config.Config{Shares: f.Shares}, policies: f.Policies}, log)
}

// TestTerms checks which keys are divided, and that a reload changes that.
func TestTerms(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	var s stores
	if _, ok := s.terms("api|11:203.0.113.7"); ok {
		t.Error("a key is divided before the first generation")
	}
	divideBy(t, &s, log, `
shares: { lease: 3s }
policies:
  - { name: api, key: client.ip, limits: 1000/s, shares: { largest: 50 } }
  - { name: strict, key: client.ip, limits: 1000/s, shares: off }
  - { name: small, key: client.ip, limits: 10/s }
`)
	for key, want := range map[string]share.Terms{
		"api|11:203.0.113.7": {Largest: 50}, "user:42": {Lease: 3 * time.Second}, "|envoy|3:api": {Lease: 3 * time.Second},
		"strict|11:203.0.113.7": {}, "small|11:203.0.113.7": {},
	} {
		if got, ok := s.terms(key); got != want || ok != (want != share.Terms{}) {
			t.Errorf("terms of %s = %+v, %v, want %+v", key, got, ok, want)
		}
	}
	if n := strings.Count(text.String(), "shares have no effect"); n != 1 {
		t.Errorf("%d warnings about a memory store, want 1:\n%s", n, &text)
	}
	divideBy(t, &s, log, "policies: [{ name: api, key: client.ip, limits: 1000/s }]")
	if got, ok := s.terms("user:42"); ok {
		t.Errorf("terms after a reload without shares = %+v, want none", got)
	}
}

// TestExplainShares checks the reasons why a limit is not divided.
func TestExplainShares(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	s, err := openStores(t.Context(), &config.Config{Store: "memory"}, metrics.New(metrics.Config{}), log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	limit := weir.MustLimit("1000/s")
	if v, err := s.explainShares(t.Context(), "k", limit); v != nil || err != nil {
		t.Errorf("explainShares without shares = %+v, %v, want nothing", v, err)
	}
	divideBy(t, s, log, "shares: auto\n")
	if v, err := s.explainShares(t.Context(), "k", limit); v != nil || err == nil || !strings.Contains(err.Error(), "memory of this process") {
		t.Errorf("explainShares in memory = %+v, %v, want the reason", v, err)
	}
}
