package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// budgetFile is the configuration of two gateways with one Redis.
const budgetFile = `
store: redis://REDIS
failover: { deadline: 30s }
gateway:
  routes: [{ path: /, upstream: "UPSTREAM" }]
prices:
  models: [{ model: m1, input: "1.25", cached: "0.125", output: "10" }]
policies:
  - name: ai
    match: /v1/*
    on_store_error: closed
    budget:
      unit: usd
      levels:
        - { name: key, key: "header:Authorization", limits: 100/720h fixed_window }
        - { name: team, key: "const:team", limits: 200/720h fixed_window }
        - { name: org, key: "const:acme", limits: 300.50/720h fixed_window }
      reserve: { max_input: 1000, max_output: 1000 }
`

const (
	budgetStreams  = 500
	budgetReported = 558                  // micro-dollars of each response of the upstream
	budgetBound    = 1250 + 1000*10       // of each request
	budgetFixtures = "../budget/testdata" // each of them has the cost budgetReported
)

// A modelAPI streams the fixtures of package budget. With the query hold, it sends the first event
// and waits for release before it sends the rest.
type modelAPI struct {
	*httptest.Server
	release chan struct{}
}

func startModelAPI(t *testing.T) *modelAPI {
	a := &modelAPI{release: make(chan struct{})}
	texts := map[string][]byte{}
	for _, name := range []string{"openai-chat", "openai-responses", "anthropic", "gemini"} {
		text, err := os.ReadFile(filepath.Join(budgetFixtures, name+".sse"))
		if err != nil {
			t.Fatal(err)
		}
		texts["/v1/"+name] = text
	}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"start\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Has("hold") {
			select {
			case <-a.release:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = w.Write(texts[r.URL.Path])
	}))
	t.Cleanup(a.Close)
	return a
}

// startBudgetGateway runs a gateway and returns it with its URL.
func startBudgetGateway(t *testing.T, file string) (*exec.Cmd, string) {
	t.Helper()
	address := porttest.Address(t)
	cmd := exec.Command(programtest.Weir(t), "serve", file, "--listen-gateway", address, "--listen-http", "off",
		"--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("output of weir:\n%.4000s", log.String())
		}
	})
	awaitStatus(t, "http://"+address+"/ready", http.StatusOK)
	return cmd, "http://" + address
}

// stream sends a request, waits for the first event, calls begun, and reads the rest.
func stream(t *testing.T, url string, begun func()) (http.Header, error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"model":"m1"}`))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer k")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if line, err := in.ReadString('\n'); err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s, %q, %v, want 200 and an event", res.Status, line, err)
	}
	begun()
	_, err = io.Copy(io.Discard, in)
	return res.Header, err
}

// TestBudget sends 500 parallel streams in four formats through two gateways, with a budget in US
// dollars on three levels, and ends one gateway with SIGKILL in the middle. Each level has exactly
// the cost of the responses that ended, and the bound of the requests of the lost gateway.
func TestBudget(t *testing.T) {
	api := startModelAPI(t)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := strings.NewReplacer("REDIS", redistest.Start(t).Addr, "UPSTREAM", api.URL).Replace(budgetFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lost, lostURL := startBudgetGateway(t, file)
	_, url := startBudgetGateway(t, file)

	formats := []string{"openai-chat", "openai-responses", "anthropic", "gemini"}
	var begun, ended sync.WaitGroup
	var mu sync.Mutex
	failed := map[bool]int{} // by whether the gateway is the lost one
	begun.Add(budgetStreams)
	for i := range budgetStreams {
		to, query := url, ""
		if i%2 == 0 {
			to = lostURL
		}
		if i < budgetStreams/2 {
			query = "?hold"
		}
		ended.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			_, err := stream(t, to+"/v1/"+formats[i/2%len(formats)]+query, func() {
				if query != "" {
					once()
				}
			})
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if failed[to == lostURL]++; to != lostURL || query == "" {
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	begun.Wait() // half of the streams have ended, half have sent their first event
	if err := lost.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lost.Wait()
	close(api.release)
	ended.Wait()
	const killed = budgetStreams / 4
	if failed[true] != killed || failed[false] != 0 {
		t.Fatalf("%d and %d streams failed, want %d of the lost gateway and none of the other", failed[true], failed[false], killed)
	}

	h, err := stream(t, url+"/v1/anthropic", func() {})
	if err != nil {
		t.Fatal(err)
	}
	const want = (budgetStreams-killed)*budgetReported + killed*budgetBound
	for level, quota := range map[string]int64{"key": 100_000_000, "team": 200_000_000, "org": 300_500_000} {
		m := regexp.MustCompile(`"ai\.` + level + `";r=(\d+)`).FindStringSubmatch(h.Get("RateLimit"))
		if m == nil {
			t.Fatalf("RateLimit = %s, want ai.%s", h.Get("RateLimit"), level)
		}
		left, _ := strconv.ParseInt(m[1], 10, 64)
		if got := quota - left - budgetBound; got != want {
			t.Errorf("%s: charged %d micro-dollars, want %d", level, got, want)
		}
		if policy := fmt.Sprintf(`"ai.%s";q=%d;qu="micro-usd"`, level, quota); !strings.Contains(h.Get("RateLimit-Policy"), policy) {
			t.Errorf("RateLimit-Policy = %s, want %s", h.Get("RateLimit-Policy"), policy)
		}
	}
}
