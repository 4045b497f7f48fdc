package e2e_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/floodweir/weir/e2e/redistest"
)

// encode compresses a body.
func encode(t *testing.T, encoding string, body []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "":
		return body
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hooks records the webhooks that it gets.
type hooks struct {
	mu  sync.Mutex
	got []string // policy and threshold of each
	bad []string
}

const hookSecret = "0123456789abcdef0123456789abcdef"

func (h *hooks) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
	var hook struct {
		Policy    string
		Key       []string
		Threshold int
	}
	err := json.Unmarshal(body, &hook)
	h.mu.Lock()
	defer h.mu.Unlock()
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("Webhook-Signature") != want || err != nil {
		h.bad = append(h.bad, string(body))
	}
	key := fmt.Sprint(hook.Key)
	if strings.HasPrefix(key, "[sha256:") {
		key = "" // a credential
	}
	h.got = append(h.got, fmt.Sprintf("%s%s %d", hook.Policy, key, hook.Threshold))
}

// TestAIGateway runs the example of docs/budgets.md in two gateways with one Redis. It charges
// responses in three formats, at once and streamed, in each encoding, to the micro-dollar. It then
// exceeds a threshold in both gateways: one webhook is sent.
func TestAIGateway(t *testing.T) {
	page, err := os.ReadFile("../docs/budgets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")

	const large = 8_500_000 // output tokens of 85 US dollars
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path == "/ready" {
			return
		}
		if q.Has("fail") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if q.Has("large") {
			fmt.Fprintf(w, `{"type":"message","model":"m1","usage":{"input_tokens":0,"output_tokens":%d}}`, large)
			return
		}
		body, err := os.ReadFile(filepath.Join(budgetFixtures, q.Get("fixture")))
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(q.Get("fixture"), ".sse") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		if e := q.Get("encoding"); e != "" {
			w.Header().Set("Content-Encoding", e)
			body = encode(t, e, body)
		}
		for piece := range len(body)/50 + 1 {
			_, _ = w.Write(body[piece*50 : min(len(body), piece*50+50)])
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer upstream.Close()
	received := &hooks{}
	receiver := httptest.NewServer(received)
	defer receiver.Close()

	dir := t.TempDir()
	example := text
	for old, now := range map[string]string{
		"http://127.0.0.1:3000":  upstream.URL,
		"warn: { at: [80, 90] }": `warn: { at: [80, 90], webhook: "` + receiver.URL + `", secret_file: webhook.secret }`,
	} {
		if !strings.Contains(example, old) {
			t.Fatalf("the example has no %s:\n%s", old, text)
		}
		example = strings.ReplaceAll(example, old, now)
	}
	file := filepath.Join(dir, "weir.yaml")
	for name, text := range map[string]string{file: "store: redis://" + redistest.Start(t).Addr + "\nfailover: { deadline: 30s }\n" + example, filepath.Join(dir, "webhook.secret"): hookSecret + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var gateways [2]string
	var processes [2]*exec.Cmd
	for i := range gateways {
		processes[i], gateways[i] = startBudgetGateway(t, file)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	send := func(gateway int, key, path, query string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateways[gateway]+path+"?"+query, strings.NewReader(`{"model":"m1"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("X-Team", "red")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, body
	}
	// charged returns what the team was charged. A failed request costs nothing but its bound,
	// while it runs.
	var bound int64
	charged := func() int64 {
		t.Helper()
		res, _ := send(0, "poll", "/v1/messages", "fail")
		m := regexp.MustCompile(`"ai\.team";r=(\d+)`).FindStringSubmatch(res.Header.Get("RateLimit"))
		if m == nil {
			t.Fatalf("%s, RateLimit %s, want 500 and ai.team", res.Status, res.Header.Get("RateLimit"))
		}
		left, _ := strconv.ParseInt(m[1], 10, 64)
		return 200_000_000 - left - bound
	}
	await := func(want int64) {
		t.Helper()
		got := charged()
		for tries := 0; got != want && tries < 1000; tries++ { // a response is charged after its last byte
			got = charged()
		}
		if got != want {
			t.Fatalf("charged %d micro-dollars, want %d", got, want)
		}
	}

	bound = charged()
	var want int64
	for format, path := range map[string]string{"openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic": "/v1/messages"} {
		for _, kind := range []string{".json", ".sse"} {
			plain, err := os.ReadFile(filepath.Join(budgetFixtures, format+kind))
			if err != nil {
				t.Fatal(err)
			}
			for i, encoding := range []string{"", "gzip", "br", "zstd"} {
				res, body := send(i%2, "k", path, "fixture="+format+kind+"&encoding="+encoding)
				if res.StatusCode != http.StatusOK || !bytes.Equal(body, encode(t, encoding, plain)) || res.Header.Get("Content-Encoding") != encoding {
					t.Errorf("%s%s %s: %s, %q, want the body of the upstream", format, kind, encoding, res.Status, body)
				}
				want += budgetReported
				await(want)
			}
		}
	}

	for i := range gateways { // 170 dollars of the team's 200, each of another key's 5
		if res, _ := send(i, fmt.Sprint("large", i), "/v1/messages", "large"); res.StatusCode != http.StatusOK {
			t.Fatalf("large response: %s", res.Status)
		}
		want += large * 10
		await(want)
	}
	for i := range gateways {
		res, _ := send(i, "k", "/v1/messages", "fixture=anthropic.sse")
		if got := res.Header.Get("Weir-Budget-Warning"); got != "team;used=0.85" {
			t.Errorf("Weir-Budget-Warning %q, want team;used=0.85", got)
		}
		if res, _ = send(i, "large0", "/v1/messages", "fail"); res.StatusCode != http.StatusTooManyRequests || !strings.HasPrefix(res.Header.Get("Weir-Budget-Warning"), "key;used=17.00") {
			t.Errorf("%s, Weir-Budget-Warning %q, want 429 and key;used=17.00", res.Status, res.Header.Get("Weir-Budget-Warning"))
		}
	}
	for _, p := range processes { // which sends what is pending
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("weir: %v", err)
		}
	}
	slices.Sort(received.got)
	if got := fmt.Sprint(received.got); got != "[ai.key 80 ai.key 80 ai.key 90 ai.key 90 ai.team[red] 80]" || len(received.bad) > 0 {
		t.Errorf("webhooks %s, without a signature %q, want two thresholds of two keys, and one of the team", got, received.bad)
	}
}
