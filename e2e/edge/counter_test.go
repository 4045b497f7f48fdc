package edge_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

const counterExample = "../../examples/nginx/"

// startCounters runs the counters of the example with four workers.
func startCounters(t *testing.T, redis *redistest.Server) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(counterExample + "*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of the example: %v, %v", files, err)
	}
	_, port, _ := strings.Cut(redis.Addr, ":")
	for _, f := range append(files, counterExample+"counters.conf") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.NewReplacer(`"127.0.0.1", 6379`, `"127.0.0.1", `+port, "127.0.0.1:8088", "ADDR", "/etc/nginx/counters", dir).Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := os.ReadFile(filepath.Join(dir, "counters.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + nginxtest.Start(t, nginxtest.Config{Workers: 4, HTTP: string(conf)}).Addr
}

// passed returns how many requests a counter admitted, and the denied ones by their body.
func passed(t *testing.T, all []reply) (through int, refused map[string]int) {
	t.Helper()
	refused = map[string]int{}
	for i, r := range all {
		switch {
		case r.err != nil:
			t.Fatalf("request %d: %v", i, r.err)
		case strings.HasPrefix(r.body, "requests so far: "), r.body == "through\n":
			through++
		default:
			refused[fmt.Sprintf("%d %s", r.status, strings.TrimSpace(r.body))]++
		}
	}
	return through, refused
}

// inTurn sends n requests one after the other.
func inTurn(c *caller, n int, url string) []reply {
	all := make([]reply, n)
	for i := range all {
		all[i] = c.get(url)
	}
	return all
}

var commandCalls = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// commands returns the number of commands that Redis received since its statistics were reset,
// without those inside of scripts.
func commands(t *testing.T, redis *redistest.Server, scripts ...string) (n int) {
	t.Helper()
	for _, m := range commandCalls.FindAllStringSubmatch(redis.Do(t, "INFO", "commandstats").(string), -1) {
		calls, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "info", "ping", "config", "config|resetstat", "script", "script|flush", "script|load":
			continue
		case "evalsha", "eval":
		default:
			if len(scripts) > 0 {
				continue
			}
		}
		n += calls
	}
	return n
}

// watchDecisions watches a Redis. The function that it returns ends this and returns how often each
// command ran meanwhile for decisions: EVALSHA and what their scripts ran. What the workers poll,
// and what their report runs, is in scripts of EVAL.
func watchDecisions(t *testing.T, redis *redistest.Server) func() map[string]int {
	t.Helper()
	conn, err := redistest.Dial(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	return func() map[string]int {
		t.Helper()
		redis.Do(t, "ECHO", "end of watch")
		calls, decides := map[string]int{}, false
		for {
			line, err := conn.Receive()
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(line)
			if strings.Contains(text, `"end of watch"`) {
				return calls
			}
			m := monitored.FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("MONITOR printed %q", text)
			}
			command := strings.ToLower(m[2])
			if m[1] != "lua" {
				decides = command == "evalsha"
			}
			if decides {
				calls[command]++
			}
		}
	}
}

// monitored matches a line of MONITOR: the client, which is lua inside of a script, and the command.
var monitored = regexp.MustCompile(`^[0-9.]+ \[\d+ (\S+)\] "([^"]+)"`)

const tooMany = `200 {"resp_code":-1,"resp_msg":"too many requests"}`

// TestCounterFirst shows the faults of the first counter. INCR never returns nil, so the key
// has no TTL, and a client is blocked forever after ten requests. The denial has status 200.
// When Redis takes no writes, all requests pass.
func TestCounterFirst(t *testing.T) {
	redis := redistest.Start(t)
	base := startCounters(t, redis)
	c := callFrom(t, "127.0.0.7")
	n, refused := passed(t, inTurn(c, 15, base+"/first"))
	if n != 10 || refused[tooMany] != 5 {
		t.Errorf("of 15 requests %d pass, %v, want 10", n, refused)
	}
	if sent := commands(t, redis); sent != 25 {
		t.Errorf("15 requests are %d commands, want 2 for one that passes and 1 for another", sent)
	}
	if ttl := redis.Do(t, "TTL", "count_rate_limit:ip:127.0.0.7"); ttl != int64(-1) {
		t.Errorf("TTL = %v, want -1, never", ttl)
	}
	redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	n, refused = passed(t, inTurn(callFrom(t, "127.0.0.8"), 30, base+"/first"))
	if n != 30 {
		t.Errorf("of 30 requests %d pass while Redis takes no writes, %v, want all", n, refused)
	}
	t.Logf("first: of 15 requests 10 pass, and none ever after (TTL -1); 25 commands; of 30 requests %d pass while Redis is full; refused as %v", n, tooMany)
}

// TestCounterRepaired shows that other requests come between the read and the write of the
// second counter.
func TestCounterRepaired(t *testing.T) {
	redis := redistest.Start(t)
	base := startCounters(t, redis)
	n, refused := passed(t, inTurn(callFrom(t, "127.0.0.7"), 15, base+"/repaired"))
	if n != 10 || refused[tooMany] != 5 {
		t.Errorf("of 15 requests in turn %d pass, %v, want 10", n, refused)
	}
	if sent := commands(t, redis); sent != 3+9*2+5 {
		t.Errorf("15 requests are %d commands, want 3 for the first, 2 for those that pass, 1 for others", sent)
	}
	most := 0
	for round := range 20 {
		c := callFrom(t, fmt.Sprintf("127.0.1.%d", round+1))
		n, _ := passed(t, c.atOnce(64, base, "/repaired", "/"))
		most = max(most, n)
	}
	if most <= 10 {
		t.Errorf("of 64 requests at once at most %d pass in 20 rounds, want more than 10", most)
	}
	redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if n, refused := passed(t, inTurn(callFrom(t, "127.0.0.8"), 30, base+"/repaired")); n != 30 {
		t.Errorf("of 30 requests %d pass while Redis takes no writes, %v, want all", n, refused)
	}
	t.Logf("repaired: of 64 requests at once up to %d pass, of 10", most)
}

// TestCounterScript shows that the script's SHA works only until the script is flushed.
func TestCounterScript(t *testing.T) {
	redis := redistest.Start(t)
	base := startCounters(t, redis)
	text, err := os.ReadFile(counterExample + "counter.redis.lua")
	if err != nil {
		t.Fatal(err)
	}
	// As by redis-cli script load "$(cat counter.redis.lua)".
	sha := redis.Do(t, "SCRIPT", "LOAD", strings.TrimRight(string(text), "\n"))
	lua, err := os.ReadFile(counterExample + "counter_sha.lua")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lua), fmt.Sprintf("%q", sha)) {
		t.Fatalf("counter_sha.lua does not name the script, %s", sha)
	}
	c := callFrom(t, "127.0.0.7")
	n, refused := passed(t, c.atOnce(64, base, "/script", "/"))
	if n != 10 || refused[tooMany] != 54 {
		t.Errorf("of 64 requests at once %d pass, %v, want 10", n, refused)
	}
	if sent := commands(t, redis, "counter"); sent != 64 {
		t.Errorf("64 requests are %d commands, want 1 each", sent)
	}
	redis.Do(t, "SCRIPT", "FLUSH")
	n, refused = passed(t, inTurn(callFrom(t, "127.0.0.8"), 20, base+"/script"))
	lost := `200 {"resp_code":-1,"resp_msg":"NOSCRIPT No matching script. Please use EVAL."}`
	if n != 0 || refused[lost] != 20 {
		t.Errorf("after SCRIPT FLUSH %d of 20 pass, %v, want none, and %s", n, refused, lost)
	}
	redis.Do(t, "SCRIPT", "LOAD", strings.TrimRight(string(text), "\n"))
	redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	for i, r := range inTurn(callFrom(t, "127.0.0.9"), 3, base+"/script") {
		if r.status != 200 || !strings.Contains(r.body, "OOM ") {
			t.Errorf("request %d while Redis takes no writes: %+v, want 200 and an error", i, r)
		}
	}
	t.Logf("script: after SCRIPT FLUSH %d of 20 pass, the others get %s", n, lost)
}

// TestCounterWeir checks that with the policy of the example, the same nginx and the same
// Redis, none of these faults occurs.
func TestCounterWeir(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	weir := programtest.Weir(t)
	text, err := os.ReadFile(counterExample + "weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	store := "store: redis://127.0.0.1:6379\n"
	if !strings.Contains(string(text), store) {
		t.Fatalf("the example has no line %q", store)
	}
	file := writePolicies(t, redis.Addr, strings.Replace(string(text), store, "", 1))
	base := "http://" + startEdge(t, weir, file, 4).Addr
	callFrom(t, "127.0.0.6").get(base + "/") // loads the script

	c := callFrom(t, "127.0.0.7")
	stop := watchDecisions(t, redis)
	n, refused := passed(t, c.atOnce(64, base, "/", "/warm"))
	if n != 10 || len(refused) != 1 {
		t.Errorf("of 64 requests at once %d pass, %v, want 10", n, refused)
	}
	sent := stop() // the script runs all but evalsha
	calls := sent["evalsha"]
	if want := map[string]int{"evalsha": calls, "get": calls, "set": sent["set"], "time": calls}; !maps.Equal(sent, want) || calls > 64 || sent["set"] > 10 {
		t.Errorf("64 requests are the commands %v, want at most 64 calls, which share requests", sent)
	}
	keys := redis.Do(t, "KEYS", "*127.0.0.7*").([]any)
	if len(keys) != 1 {
		t.Fatalf("keys = %v, want 1", keys)
	}
	ttl := redis.Do(t, "PTTL", keys[0]).(int64)
	if ttl <= 0 || ttl > 11_000 {
		t.Errorf("TTL = %d ms, want 10 s and the second that a key is kept beyond its end", ttl)
	}

	denied := c.get(base + "/")
	if seconds, err := strconv.Atoi(denied.header.Get("Retry-After")); denied.status != 429 || err != nil || seconds < 1 || seconds > 10 {
		t.Errorf("a denial is %+v, want 429 with Retry-After", denied)
	}
	redis.Do(t, "SCRIPT", "FLUSH")
	n, refused = passed(t, inTurn(callFrom(t, "127.0.0.8"), 20, base+"/"))
	if n != 10 {
		t.Errorf("after SCRIPT FLUSH %d of 20 pass, %v, want 10", n, refused)
	}
	redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	full := callFrom(t, "127.0.0.9").get(base + "/")
	if full.status != 503 || full.header.Get("Retry-After") == "" {
		t.Errorf("while Redis takes no writes a request gets %+v, want 503", full)
	}
	t.Logf("weir: of 64 requests at once 10 pass, in %d calls; TTL %d ms; after SCRIPT FLUSH %d of 20 pass; denied: %d, Retry-After %s, %s",
		calls, ttl, n, denied.status, denied.header.Get("Retry-After"), denied.body)
}
