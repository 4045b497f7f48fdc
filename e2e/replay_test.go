package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

const replayed = `
gateway:
  trusted_proxies: [127.0.0.1]
  routes: [{ path: /, upstream: "UPSTREAM" }]
policies:
  - { name: per-client, key: [client.ip], limits: ["7/s burst 3", "100/h"] }
  - { name: search, match: { paths: [/search] }, key: ["header:X-Api-Key"], limits: ["20/m sliding_window"] }
  - { name: trial, match: { paths: [/orders] }, key: [client.ip], limits: ["1/m"], mode: shadow }
`

// TestReplay sends requests of several clients at once to a gateway with a decision log. A
// replay of that log through the same file denies exactly the requests that the gateway
// denied: the log has the store's instants in µs.
func TestReplay(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	dir := t.TempDir()
	file, log := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "decisions.log")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(replayed, "UPSTREAM", upstream.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	binary, gateway, api := programtest.Weir(t), porttest.Address(t), porttest.Address(t)
	cmd := exec.Command(binary, "serve", file, "--listen-gateway", gateway, "--listen-http", api, "--listen-admin", "off",
		"--listen-grpc", "off", "--listen-resp", "off", "--log", "json", "--log-denials", "1", "--log-decisions", "1", "--log-keys", "plain")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	defer stop()
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)

	// The log has at most 100 lines a second, and a request has two lines at most.
	pace := time.NewTicker(22 * time.Millisecond)
	defer pace.Stop()
	var wg sync.WaitGroup
	var denied, sent atomic.Int64
	for client := range 4 {
		wg.Go(func() {
			for i := range 60 {
				<-pace.C
				path := []string{"/", "/search", "/orders", "/"}[(i+client)%4]
				r, err := http.NewRequest(http.MethodGet, "http://"+gateway+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", client%2))
				r.Header.Set("X-Api-Key", fmt.Sprintf("key-%d", client%3))
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				sent.Add(1)
				if res.StatusCode == http.StatusTooManyRequests {
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	stop()
	text, err := os.ReadFile(log)
	if err != nil || strings.Contains(string(text), "suppressed") {
		t.Fatalf("the log is not complete (%v):\n%s", err, text)
	}
	replay := exec.Command(binary, "replay", log, "--policies", file, "--json")
	replay.Stderr = os.Stderr
	got, err := replay.Output()
	if err != nil {
		t.Fatalf("weir replay: %v\n%s", err, got)
	}
	var report struct {
		Replayed int `json:"replayed"`
		Files    []struct {
			Results []struct {
				Both       int `json:"denied_in_both"`
				OnlyLog    int `json:"denied_only_in_log"`
				OnlyReplay int `json:"denied_only_here"`
			} `json:"results"`
			Differences []any `json:"differences"`
		} `json:"files"`
	}
	if err := json.Unmarshal(got, &report); err != nil || len(report.Files) != 1 || len(report.Files[0].Results) != 1 {
		t.Fatalf("report (%v):\n%s", err, got)
	}
	r := report.Files[0].Results[0]
	if report.Replayed != int(sent.Load()) || r.Both != int(denied.Load()) || r.OnlyLog != 0 || r.OnlyReplay != 0 {
		t.Errorf("%d requests, 429 in both %d, only in the log %d, only here %d, want %d, %d, 0 and 0: %v",
			report.Replayed, r.Both, r.OnlyLog, r.OnlyReplay, sent.Load(), denied.Load(), report.Files[0].Differences)
	}
	if denied.Load() < 20 || denied.Load() > sent.Load()-20 {
		t.Errorf("%d of %d requests denied, want some of both", denied.Load(), sent.Load())
	}
}
