package e2e_test

import (
	"encoding/json"
	"errors"
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
	"github.com/floodweir/weir/e2e/redistest"
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

// TestReplaySources compares a running program, two published versions and a file.
func TestReplaySources(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	policies := func(limit string) string {
		return "policies: [{ name: p, key: client.ip, limits: " + limit + " }]\n"
	}
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/text" || r.Header.Get("Authorization") != "Bearer secret" {
			http.NotFound(w, r)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"version": 2, "text": policies("5/s")})
	}))
	defer admin.Close()
	for _, limit := range []string{"2/s", "3/s"} {
		cmd := exec.Command(binary, "apply", "-", "--store", "redis://"+redis.Addr)
		cmd.Stdin = strings.NewReader(policies(limit))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("apply = %v: %s", err, out)
		}
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(policies("9/s")), 0o600); err != nil {
		t.Fatal(err)
	}
	log := "time,client_ip,path\n" + strings.Repeat("1764000000.5,192.0.2.1,/\n", 10)
	for _, test := range []struct{ args, want string }{
		{"--store redis://" + redis.Addr, "[version 2:7]"},
		{"--store redis://" + redis.Addr + " --version 1 --after " + file, "[version 1:8 " + file + ":1]"},
		{"--running --admin " + admin.URL + " --store redis://" + redis.Addr + " -p " + file, "[running:5 version 2:7 " + file + ":1]"},
	} {
		cmd := exec.Command(binary, append([]string{"replay", "-", "--json"}, strings.Fields(test.args)...)...)
		cmd.Stdin = strings.NewReader(log)
		cmd.Env = append(os.Environ(), "WEIR_ADMIN_TOKEN=secret")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var report struct {
			Files []struct {
				File    string
				Results []struct{ Denied int }
			}
		}
		if err = errors.Join(err, json.Unmarshal(out, &report)); err != nil {
			t.Fatalf("replay %s: %v: %s", test.args, err, out)
		}
		var got []string
		for _, f := range report.Files {
			got = append(got, fmt.Sprintf("%s:%d", f.File, f.Results[0].Denied))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("replay %s denies %v, want %s", test.args, got, test.want)
		}
	}
}
