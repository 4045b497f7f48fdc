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

// budgetFile is the configuration of gateways with one Redis.
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
        - { name: key, key: "header:Authorization", limits: KEY/720h fixed_window }
        - { name: team, key: "const:team", limits: TEAM/720h fixed_window }
        - { name: org, key: "const:acme", limits: ORG/720h fixed_window }
      reserve: { max_input: 1000, max_output: 1000, step: 100 }
      exhausted: finish
      include_usage: true
`

const (
	budgetStreams  = 500
	budgetReported = 558                  // micro-dollars of each fixture
	budgetInput    = 1250                 // of the bound of the input of each request
	budgetOutput   = 10                   // of an output token
	budgetStep     = 100                  // output tokens
	budgetHeld     = 150                  // output tokens of a long stream before its pause
	budgetLong     = 1150                 // output tokens of half of the long streams
	budgetShort    = 300                  // and of the others
	budgetOrg      = 1_400_000            // the budget that ends streams
	budgetFixtures = "../budget/testdata" // each of them has the cost budgetReported
)

// A modelAPI streams the fixtures of package budget. At /v1/chat/completions it streams as many
// tokens as the query asks for, and their usage if the request asks for that. It waits for release
// after budgetHeld.
type modelAPI struct {
	*httptest.Server
	release chan struct{}
}

const (
	budgetToken = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	budgetUsage = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":60}}}` + "\n\n"
)

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
		if r.URL.Path != "/v1/chat/completions" {
			_, _ = w.Write(texts[r.URL.Path])
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.Repeat(budgetToken, budgetHeld))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-a.release:
		case <-r.Context().Done():
			return
		}
		tokens, _ := strconv.Atoi(r.URL.RawQuery)
		for range tokens - budgetHeld {
			if _, err := io.WriteString(w, budgetToken); err != nil {
				return
			}
		}
		if strings.Contains(string(body), `"include_usage":true`) {
			_, _ = fmt.Fprintf(w, budgetUsage, tokens)
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
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

// A streamed has the parts of a stream that a client reads.
type streamed struct {
	header  http.Header
	tokens  int  // of a long stream
	cut     bool // the budget ended it
	regular bool // it has an end
}

// stream sends a request and reads its stream. It calls held after budgetHeld tokens.
func stream(t *testing.T, url string, held func()) (streamed, error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"model":"m1","stream":true}`))
	if err != nil {
		return streamed{}, err
	}
	r.Header.Set("Authorization", "Bearer k")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return streamed{}, err
	}
	defer res.Body.Close()
	s := streamed{header: res.Header}
	if res.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s, want 200", res.Status)
	}
	in := bufio.NewReader(res.Body)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if strings.Contains(line, `"content":"a"`) {
			if s.tokens++; s.tokens == budgetHeld {
				held()
			}
		}
		if strings.Contains(line, `"usage":{`) && strings.Contains(url, "/chat/completions") {
			return s, fmt.Errorf("the client sees usage that it did not request: %s", line)
		}
		s.cut = s.cut || line == ": weir budget exhausted\n"
		s.regular = s.regular || line == "data: [DONE]\n"
	}
}

// TestBudget sends 500 parallel streams in four formats through two gateways, with a budget in US
// dollars on three levels, and ends one gateway with SIGKILL in the middle. Half of the streams are
// long: the budget ends some of them. Each level has exactly the cost of the responses that ended, of
// what was read of the others, and of the steps of the lost gateway. No level is exceeded.
func TestBudget(t *testing.T) {
	api := startModelAPI(t)
	redis := redistest.Start(t).Addr
	file := func(key, team, org string) string {
		name := filepath.Join(t.TempDir(), "weir.yaml")
		text := strings.NewReplacer("REDIS", redis, "UPSTREAM", api.URL, "KEY", key, "TEAM", team, "ORG", org).Replace(budgetFile)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	limited := file("100", "200", "1.40")
	lost, lostURL := startBudgetGateway(t, limited)
	_, url := startBudgetGateway(t, limited)

	formats := []string{"openai-chat", "openai-responses", "anthropic", "gemini"}
	var begun, ended sync.WaitGroup
	var mu sync.Mutex
	failed, cut, whole := 0, 0, 0 // long streams
	cutTokens, wholeTokens := 0, 0
	begun.Add(budgetStreams)
	for i := range budgetStreams {
		to, path := url, "/v1/"+formats[i/2%len(formats)]
		if i%2 == 0 {
			to = lostURL
		}
		long := i < budgetStreams/2
		tokens := budgetLong
		if i%4 < 2 {
			tokens = budgetShort
		}
		if long {
			path = fmt.Sprint("/v1/chat/completions?", tokens)
		}
		ended.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			s, err := stream(t, to+path, once)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && to == lostURL && long:
				failed++
			case err != nil || long && !s.regular:
				t.Errorf("stream %d: %v, %+v", i, err, s)
			case long && s.cut:
				cut++
				if cutTokens += s.tokens; s.tokens%budgetStep != 0 {
					t.Errorf("stream %d was ended after %d tokens, want a multiple of the step", i, s.tokens)
				}
			case long:
				whole++
				if wholeTokens += s.tokens; s.tokens != tokens {
					t.Errorf("stream %d has %d tokens, want %d", i, s.tokens, tokens)
				}
			}
		})
	}
	begun.Wait() // half of the streams have ended, half have sent budgetHeld tokens
	if err := lost.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lost.Wait()
	close(api.release)
	ended.Wait()
	const killed = budgetStreams / 4
	t.Logf("%d streams were lost, %d ended by the budget, %d whole", failed, cut, whole)
	if failed != killed || cut+whole != killed || cut == 0 || whole == 0 {
		t.Fatalf("%d long streams were lost, %d cut, %d whole, want %d lost, and some of both others", failed, cut, whole, killed)
	}

	// Larger limits have the same state, and admit a request that shows it.
	_, url = startBudgetGateway(t, file("1000", "2000", "3000.50"))
	s, err := stream(t, url+"/v1/anthropic", func() {})
	if err != nil {
		t.Fatal(err)
	}
	steps := (budgetHeld + budgetStep - 1) / budgetStep * budgetStep
	want := int64(budgetStreams/2*budgetReported + // fixtures
		killed*(budgetInput+steps*budgetOutput) +
		whole*(budgetReported-50*budgetOutput) + wholeTokens*budgetOutput +
		cut*budgetInput + cutTokens*budgetOutput)
	if want > budgetOrg {
		t.Errorf("%d micro-dollars were used, want at most %d", want, budgetOrg)
	}
	for level, quota := range map[string]int64{"key": 1_000_000_000, "team": 2_000_000_000, "org": 3_000_500_000} {
		m := regexp.MustCompile(`"ai\.` + level + `";r=(\d+)`).FindStringSubmatch(s.header.Get("RateLimit"))
		if m == nil {
			t.Fatalf("RateLimit = %s, want ai.%s", s.header.Get("RateLimit"), level)
		}
		left, _ := strconv.ParseInt(m[1], 10, 64)
		if got := quota - left - budgetInput - budgetStep*budgetOutput; got != want {
			t.Errorf("%s: charged %d micro-dollars, want %d", level, got, want)
		}
		if policy := fmt.Sprintf(`"ai.%s";q=%d;qu="micro-usd"`, level, quota); !strings.Contains(s.header.Get("RateLimit-Policy"), policy) {
			t.Errorf("RateLimit-Policy = %s, want %s", s.header.Get("RateLimit-Policy"), policy)
		}
	}
}
