package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// A serving is a running weir whose policy file changes.
type serving struct {
	gateway, api, admin string
	file                string
	process             *os.Process
}

// serve runs weir with the text of a policy file, in which it replaces UPSTREAM.
func serve(t testing.TB, binary, text string, args ...string) *serving {
	t.Helper()
	s := &serving{file: filepath.Join(t.TempDir(), "weir.yaml")}
	s.write(t, text)
	gateway, api, admin := porttest.Address(t), porttest.Address(t), porttest.Address(t)
	s.gateway, s.api, s.admin = "http://"+gateway, "http://"+api, "http://"+admin
	cmd := exec.Command(binary, append([]string{"serve", s.file, "--listen-gateway", gateway, "--listen-http", api,
		"--listen-admin", admin, "--listen-grpc", "off", "--listen-resp", "off", "--deadline", "5s"}, args...)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = cmd.Process
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("weir said:\n%s", log.String())
		}
	})
	awaitStatus(t, s.api+"/readyz", http.StatusOK)
	return s
}

// write replaces the file atomically, as an editor does.
func (s *serving) write(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

const reloadFile = `
gateway:
  routes:
    - { path: /, upstream: "UPSTREAM", timeout: TIMEOUT }
policies:
  - name: all-clients
    match: { paths: ["/"] }
    key: ["const:all-clients"]
    limits: ["LIMIT"]
    on_store_error: closed
    carry: as_is
`

// TestReloadUnderLoad changes the file again and again, sometimes to an invalid one, under
// load. No request fails, in no span of time are more admitted than the loosest limit allows,
// and all admitted requests reach nginx. Spans are measured by the clients' clock, because
// nginx writes its log late and in groups.
func TestReloadUnderLoad(t *testing.T) {
	duration := trafficTime(t)
	binary, upstream := programtest.Weir(t), startNginx(t, nginxConf, "/warm")
	text := func(i int) string {
		limit := []string{"100/s burst 50", "100/s burst 40", "80/s burst 50"}[i%3]
		if i%4 == 3 {
			return "policies: nonsense"
		}
		return strings.NewReplacer("UPSTREAM", upstream.url, "LIMIT", limit, "TIMEOUT", fmt.Sprintf("%ds", 10+i%50)).Replace(reloadFile)
	}
	s := serve(t, binary, text(0))
	var admitted, denied, failed atomic.Int64
	var passed [8][]admission
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	began := time.Now()
	for i := range passed {
		wg.Go(func() {
			for ctx.Err() == nil {
				asked := time.Since(began)
				res, err := client.Get(s.gateway + "/")
				if err != nil {
					t.Error(err)
					failed.Add(1)
					continue
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				switch res.StatusCode {
				case http.StatusOK:
					admitted.Add(1)
					passed[i] = append(passed[i], admission{asked, time.Since(began)})
				case http.StatusTooManyRequests:
					denied.Add(1)
				default:
					failed.Add(1)
				}
			}
		})
	}
	reloads := 0
	goesOn := func() bool { // longer on a busy machine
		few := reloads < 10 || admitted.Load() < 100 || denied.Load() < 100
		return time.Since(began) < duration || few && time.Since(began) < time.Minute
	}
	for tick := time.NewTicker(150 * time.Millisecond); goesOn(); reloads++ {
		s.write(t, text(reloads+1))
		if reloads%5 == 0 {
			s.process.Signal(syscall.SIGHUP)
		}
		<-tick.C
	}
	cancel()
	wg.Wait()
	seen := int64(len(upstream.logged(t, int(admitted.Load()))))
	worst, from, to := excess(slices.Concat(passed[:]...), 100, 50)
	t.Logf("%d requests in %v with %d changes of the file: %d admitted, %d denied, %d failed; the fullest span, %v to %v, has %+.1f against 50 + 100·t",
		admitted.Load()+denied.Load()+failed.Load(), time.Since(began).Round(time.Millisecond), reloads, admitted.Load(), denied.Load(), failed.Load(), from, to, worst)
	if failed.Load() != 0 || reloads < 10 || admitted.Load() < 100 || denied.Load() < 100 {
		t.Error("want no failed request, ten changes, and a hundred requests of each kind")
	}
	if seen != admitted.Load() {
		t.Errorf("%d requests reached nginx, want the %d that were admitted", seen, admitted.Load())
	}
	if worst > 0 {
		t.Errorf("%.1f more than 50 + 100·t were admitted in some span, want none", worst)
	}
}

// An admission is the time of an admitted request and of its response. The decision was made
// between them.
type admission struct{ asked, answered time.Duration }

// excess returns by how many the admissions within a span of time exceed burst + rate·t, for
// the worst span.
func excess(all []admission, rate, burst float64) (worst float64, from, to time.Duration) {
	slices.SortFunc(all, func(a, b admission) int { return cmp.Compare(a.answered, b.answered) })
	worst = -burst
	for _, first := range all {
		n := 0.0
		for _, a := range all {
			if a.asked < first.asked {
				continue
			}
			n++
			if over := n - burst - rate*(a.answered-first.asked).Seconds(); over > worst {
				worst, from, to = over, first.asked, a.answered
			}
		}
	}
	return worst, from, to
}

// TestExcess checks that delays before and after a decision do not count as excess.
func TestExcess(t *testing.T) {
	at := func(asked, answered time.Duration) admission {
		return admission{asked * time.Millisecond, answered * time.Millisecond}
	}
	for _, c := range []struct {
		name string
		all  []admission
		want float64
	}{
		{"none", nil, -2},
		{"a burst", []admission{at(0, 0), at(0, 0)}, 0},
		{"one too many", []admission{at(0, 0), at(0, 0), at(5, 9)}, 1 - 0.09},
		{"and then in time", []admission{at(0, 0), at(0, 0), at(0, 100)}, 0},
		{"answered late, together", []admission{at(0, 500), at(100, 500), at(200, 500), at(300, 500), at(400, 500)}, -2},
		{"later than others", []admission{at(0, 1), at(1000, 1000), at(1000, 1000), at(1000, 1000)}, 1},
	} {
		if got, _, _ := excess(c.all, 10, 2); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestReloadRefuses checks that a broken file changes nothing and is reported in the log,
// /readyz and a metric. A valid file applies at once.
func TestReloadRefuses(t *testing.T) {
	upstream := startNginx(t, nginxConf, "/warm")
	text := strings.NewReplacer("UPSTREAM", upstream.url, "TIMEOUT", "10s")
	s := serve(t, programtest.Weir(t), text.Replace(strings.Replace(reloadFile, "LIMIT", "1/h burst 2", 1)))
	mustGet(t, s.gateway+"/")
	s.write(t, "policies: [{ name: all-clients }]")
	awaitText(t, s.api+"/readyz", "last reload failed")
	awaitText(t, s.api+"/readyz", `"ready":true`)
	awaitText(t, s.admin+"/metrics", "weir_policies_last_reload_successful 0")
	mustGet(t, s.gateway+"/") // the second of two
	awaitStatus(t, s.gateway+"/", http.StatusTooManyRequests)
	s.write(t, text.Replace(strings.Replace(reloadFile, "LIMIT", "1/h burst 3", 1)))
	awaitText(t, s.admin+"/metrics", "weir_policies_last_reload_successful 1")
	awaitStatus(t, s.gateway+"/", http.StatusTooManyRequests) // carried over: no token left
}

// TestPublished checks that published policies apply at every node, with WEIR_LONG within a
// second, that invalid ones apply nowhere, and that a rollback restores the earlier version.
func TestPublished(t *testing.T) {
	redis := redistest.Start(t)
	store := "redis://" + redis.Addr
	upstream, binary := startNginx(t, nginxConf, "/warm"), programtest.Weir(t)
	text := strings.NewReplacer("UPSTREAM", upstream.url, "TIMEOUT", "10s")
	first := text.Replace(strings.Replace(reloadFile, "LIMIT", "1/h burst 1", 1))
	nodes := []*serving{
		serve(t, binary, first, "--store", store, "--policies", "store"),
		serve(t, binary, first, "--store", store, "--policies", "store"),
	}
	weir := func(stdin string, args ...string) (string, error) {
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "WEIR_STORE="+store)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	mustSay := func(want, stdin string, args ...string) {
		t.Helper()
		if out, err := weir(stdin, args...); err != nil || !strings.Contains(out, want) {
			t.Fatalf("weir %v = %v: %s, want %q", args, err, out, want)
		}
	}
	second := strings.Replace(reloadFile, "LIMIT", "1/h burst 5", 1)
	mustSay("published version 1", text.Replace(second), "apply", "-", "--note", "more")
	start := time.Now()
	for _, n := range nodes {
		awaitText(t, n.api+"/readyz", "1 from version 1 in the store")
	}
	t.Logf("both nodes follow after %v", time.Since(start).Round(time.Millisecond))
	if took := time.Since(start); os.Getenv("WEIR_LONG") != "" && took > 1500*time.Millisecond { // longer on a busy machine
		t.Errorf("the nodes follow after %v, want within a second", took)
	}
	for i := range 5 {
		mustGet(t, nodes[i%2].gateway+"/")
	}
	for _, n := range nodes {
		awaitStatus(t, n.gateway+"/", http.StatusTooManyRequests)
	}
	if out, err := weir("policies: nonsense", "apply", "-"); err == nil || !strings.Contains(out, "stdin:1:") {
		t.Errorf("apply of an invalid file = %v: %s, want the position of the error", err, out)
	}
	// A newer program may publish a version that this one cannot read.
	if _, err := redistest.Dial(redis.Addr); err != nil {
		t.Fatal(err)
	}
	redis.Do(t, "HSET", "weir:1:policies", "version", "2", "v:2", `{"version":2,"text":"policies: nonsense"}`)
	for _, n := range nodes {
		awaitText(t, n.api+"/readyz", "last reload failed")
		awaitText(t, n.api+"/readyz", "1 from version 1 in the store")
	}
	if out, err := weir(text.Replace(second), "apply", "-", "--after", "1"); err == nil || !strings.Contains(out, "the current version is 2") {
		t.Errorf("apply --after 1 = %v: %s, want a refusal that names the current version", err, out)
	}
	mustSay("published version 3", "", "rollback", "1")
	for _, n := range nodes {
		awaitText(t, n.api+"/readyz", "1 from version 3 in the store")
		awaitStatus(t, n.gateway+"/", http.StatusTooManyRequests) // the same limit with its state
	}
	mustSay("back to version 1", "", "versions")
	mustSay("burst 5", "", "versions", "3")
	// A node that starts later uses the published policies, not its file.
	late := serve(t, binary, first, "--store", store, "--policies", "store")
	awaitText(t, late.api+"/readyz", "1 from version 3 in the store")
}
