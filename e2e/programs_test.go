package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// policyFile returns a policy file for examples/follow: the limit of requests, and that of its
// function.
func policyFile(requests, function string) string {
	return "policies: [{ name: api, key: header:K, limits: " + requests + " }]\n" +
		"functions: { rules: [{ name: getId, limits: " + function + " }] }\n"
}

// A goProgram is a running examples/follow.
type goProgram struct {
	url  string
	stop func()

	mu  sync.Mutex
	log bytes.Buffer
}

// Write appends to the log.
func (p *goProgram) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *goProgram) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// startProgram starts examples/follow.
func startProgram(t *testing.T, args ...string) *goProgram {
	t.Helper()
	p := &goProgram{}
	cmd := exec.Command(programtest.Build(t, "./examples/follow"), args...)
	cmd.Stderr = p
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stop = sync.OnceFunc(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("follow %q: %v\n%s", args, err, p.text())
		}
	})
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("follow %q:\n%s", args, p.text())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	p.url = strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || p.url == "" {
		t.Fatalf("follow %q: %q, %v\n%s", args, line, err, p.text())
	}
	return p
}

// limits returns the limit of a request, by the response, and that of the function.
func (p *goProgram) limits(t *testing.T) (request, function string) {
	t.Helper()
	res, err := http.Get(p.url + "/id?user=anna")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list struct{ Functions []struct{ Limits []string } }
	_, body, err := get(t.Context(), poller, p.url+"/limits")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Functions) != 1 {
		t.Fatalf("/limits = %s, %v", body, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res.Header.Get("X-RateLimit-Limit"), strings.Join(list.Functions[0].Limits, ", ")
}

// await waits until the program has the limits, and returns how long that took.
func (p *goProgram) await(t *testing.T, request, function string) time.Duration {
	t.Helper()
	began := time.Now()
	redistest.Await(t, "the limits "+request+" and "+function, func() error {
		if r, f := p.limits(t); r != request || f != function {
			return fmt.Errorf("got %q and %q", r, f)
		}
		return nil
	})
	return time.Since(began)
}

// awaitLog waits until the log has a text.
func (p *goProgram) awaitLog(t *testing.T, text string) {
	t.Helper()
	redistest.Await(t, "the log "+text, func() error {
		if !strings.Contains(p.text(), text) {
			return fmt.Errorf("got %s", p.text())
		}
		return nil
	})
}

// TestProgramsFollow runs examples/follow beside a weir serve, over Redis and over HTTP. Both get
// every change of weir apply, keep their limits while their source is down, refuse an invalid
// version, report what they have in force, and start from their copy.
func TestProgramsFollow(t *testing.T) {
	t.Parallel()
	binary, redis := programtest.Weir(t), redistest.Start(t)
	store := "redis://" + redis.Addr
	node := serve(t, binary, "policies: [{ name: p, key: client.ip, limits: 1/h }]\n", "--store", store, "--policies", "store")
	weir := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.Command(binary, append(args, "--store", store)...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("weir %q = %v: %s", args, err, out)
		}
	}
	awaitStatus(t, node.api+"/v1/published", http.StatusNotFound)
	dir := t.TempDir()
	overRedis := []string{"-redis", store, "-copy", filepath.Join(dir, "redis.yaml")}
	overHTTP := []string{"-url", node.api, "-copy", filepath.Join(dir, "http.yaml")}
	programs := map[string]*goProgram{"Redis": startProgram(t, overRedis...), "HTTP": startProgram(t, overHTTP...)}
	each := func(step, request, function string) {
		t.Helper()
		for name, p := range programs {
			t.Logf("%s: %s after %v", step, name, p.await(t, request, function))
		}
	}
	each("nothing published", "", "1000/h burst 1000")
	weir(policyFile("200/h", "100/h"), "apply", "-")
	each("apply", "200", "100/h burst 100")
	weir(policyFile("300/h", "150/h"), "apply", "-")
	each("apply again", "300", "150/h burst 150")
	weir("", "rollback")
	each("rollback", "200", "100/h burst 100")
	awaitText(t, node.admin+"/v1/functions", `"name":"getId","programs":[{"service":"shop","processes":2,"outdated":0,"stale":0}],"limits":["100/h burst 100"],"source":"rule","mode":"enforce","version":3`)

	// An operator blocks a key of the policy in the node and the programs, and lifts that.
	redistest.Await(t, "programs that apply adjustments", func() error {
		_, text, err := get(t.Context(), poller, node.admin+"/v1/overview")
		if err == nil && strings.Count(text, `"adjusts":true`) != len(programs) {
			err = errors.New(text)
		}
		return err
	})
	for _, step := range []struct {
		action string
		status int
	}{{"freeze", http.StatusTooManyRequests}, {"lift", http.StatusOK}} {
		body := `{"policy":"api","key":["ann"],"reason":"ticket 812"}`
		res, err := http.Post(node.admin+"/v1/key/"+step.action, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || strings.Contains(string(text), "not_applied_by") {
			t.Fatalf("%s = %d %s, want 200, applied by all programs", step.action, res.StatusCode, text)
		}
		for name, p := range programs {
			began := time.Now()
			redistest.Await(t, step.action+" at the program over "+name, func() error {
				r, err := http.NewRequest(http.MethodGet, p.url+"/id?user=anna", nil)
				if err != nil {
					return err
				}
				r.Header.Set("K", "ann")
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					return err
				}
				res.Body.Close()
				if res.StatusCode != step.status {
					return fmt.Errorf("got %d, want %d", res.StatusCode, step.status)
				}
				return nil
			})
			t.Logf("%s: %s after %v", step.action, name, time.Since(began))
		}
	}
	awaitText(t, node.admin+"/v1/overview", `"programs":{"rate":`)

	redis.Do(t, "HSET", "weir:1:policies", "version", "4", "id", "x", "v:4", `{"text":"policies: nonsense"}`)
	programs["Redis"].awaitLog(t, "version 4:1:11: policies")
	awaitText(t, node.admin+"/v1/functions", `"version":3,"problem":"version 4:1:11: policies`)
	each("an invalid version", "200", "100/h burst 100")

	redis.Stop()
	programs["Redis"].awaitLog(t, "published: ")
	each("no Redis", "200", "100/h burst 100")
	for _, p := range programs {
		p.stop()
	}
	programs["Redis"] = startProgram(t, overRedis...)
	programs["Redis"].await(t, "200", "100/h burst 100")
	node.process.Signal(syscall.SIGSTOP)
	programs["HTTP"] = startProgram(t, overHTTP...)
	programs["HTTP"].await(t, "200", "100/h burst 100")
	programs["HTTP"].awaitLog(t, "deadline exceeded")
	node.process.Signal(syscall.SIGCONT)

	redis.Restart(t)
	weir(policyFile("400/h", "300/h"), "apply", "-")
	each("Redis back, with version 1 again", "400", "300/h burst 300")
	awaitText(t, node.admin+"/v1/functions", `"limits":["300/h burst 300"],"source":"rule","mode":"enforce","version":1`)
}
