package consoletest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

const policies = `store: memory
gateway: { routes: [{ path: /, upstream: "http://127.0.0.1:1" }] }
policies:
  - name: login # brute force
    match: request.path == "/login"
    key: [client.ip]
    limits: [5/m]
    candidate: [12/m]
  - name: api
    match: request.path.startsWith("/api/")
    key: [header:x-user]
    limits: [10/s burst 20]
`

// testProgram uses the API of the program itself, under load.
func (s *suite) testProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := porttest.Address(t)
	base := "http://" + serve(t, file, "--listen-gateway", gateway, "--listen-http", "off") + "/console/"
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		load(ctx, "http://"+gateway)
	}()
	p := s.browser.Page(t, "program", browsertest.Device{})
	p.Open(base + "overview")
	p.WaitText(".tools .live", "Live")
	p.Await(`[...document.querySelectorAll("tbody tr")].some((r) => r.textContent.startsWith("login") && r.querySelector(".denied"))`)
	p.Click(`a[href="policy?name=login"]`)
	p.WaitText("h1", "login")
	p.Await(`document.querySelectorAll(".columns section:first-child tbody tr").length === 1`)
	p.WaitText(".estimate", "Not enough traffic")
	p.Click(".columns section:first-child tbody a")
	p.WaitText(".verdict.bad", "Denied by login (5/m). Next request succeeds in")
	p.Click(button("section .actions", 3))
	p.Fill("dialog input[type=text]", "30000/m")
	p.Fill("dialog input[name=reason]", "ticket 812")
	p.Click("dialog button.primary")
	p.WaitText(".done", "The change is in the audit log.")
	p.WaitText(".verdict.ok", "Admitted now.")
	p.Open(base + "audit")
	p.WaitText("tbody", "ticket 812")
	p.Open(base + "try")
	p.Fill(".form label:nth-of-type(2) input", "/login")
	p.Fill(".form label:nth-of-type(3) input", "203.0.113.9")
	p.Click("button.primary")
	p.WaitText(".verdict.ok", "Nothing was consumed.")
	p.WaitText("tbody .mono", "203.0.113.9")
	p.Open(base + "edit?policy=api&limits=20/s")
	p.WaitText("#validity", "Valid")
	p.Await(`document.querySelector("` + yaml + `").value.includes("login # brute force")`)
	p.Fill("input[name=limits]", "10/")
	p.WaitText(".faults", "limits")
	p.Await(`document.querySelector("button.primary").disabled`)
	p.Fill("input[name=limits]", "30/s")
	p.WaitText("#validity", "Valid")
	p.Click("button.primary")
	p.Fill("dialog input[name=reason]", "from the traffic")
	p.Click("dialog button.primary")
	p.WaitText(".done", "is in force in this process")
	p.Click(".heading .switch button:last-child")
	p.WaitText("tbody tr:first-child", "from the traffic")
	p.Click("tbody tr:nth-child(2) button")
	p.WaitText("dialog .diff .del", "30/s")
	p.Fill("dialog input[name=reason]", "wrong route")
	p.Click("dialog button.primary")
	p.WaitText(".done", "Rolled back to v")
	p.Open(base + "functions")
	p.WaitText("main", "//weir:limit")
	for _, e := range p.Errors() {
		t.Error(e)
	}
}

// testFunctions changes the limit of a function of a running Go program, and sees that it reaches the
// program and what its calls do.
func (s *suite) testFunctions(t *testing.T) {
	store := "redis://" + redistest.Start(t).Addr
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(policies, "store: memory\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://" + serve(t, file, "--store", store, "--policies", "store", "--listen-gateway", "off", "--listen-http", porttest.Address(t)) + "/console/"
	cmd := exec.Command(programtest.Build(t, "./examples/follow"), "-redis", store)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("follow: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	program := strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	get := func(path string) string {
		res, err := http.Get(program + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(body))
	}
	get("/id?user=anna")
	p := s.browser.Page(t, "functions", browsertest.Device{})
	p.Open(base + "functions")
	p.WaitText("tbody tr", "1000/h (code)")
	p.Click("tbody button")
	p.WaitText("dialog h2", "Limits of getId")
	p.Fill("dialog input", "5/h")
	p.Click("dialog button.primary")
	p.WaitText(".diff .add", "getId")
	p.WaitText("#validity", "Valid")
	p.Click("button.primary")
	p.Fill("dialog input[name=reason]", "a costly function")
	p.Click("dialog button.primary")
	began := time.Now()
	redistest.Await(t, "the limit in the program", func() error {
		if text := get("/limits"); !strings.Contains(text, `"5/h burst 5"`) {
			return errors.New(text)
		}
		return nil
	})
	t.Logf("in the program after %v", time.Since(began))
	p.WaitText(".done", "v1: ")
	p.Open(base + "functions")
	p.WaitText("tbody tr", "5/h (rule v1)")
	for range 20 {
		get("/id?user=anna")
	}
	p.Await(`document.querySelector("tbody tr .denied")`)
	accessible(t, p)
	p.Open(base + "overview")
	p.WaitText(".columns", "shop")
	p.Await(`!document.body.textContent.includes("ignores adjusted keys")`)
	for _, e := range p.Errors() {
		t.Error(e)
	}
}

// load sends requests of one address and of 70 users until ctx ends.
func load(ctx context.Context, gateway string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, path := range []string{"/login", "/api/x"} {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+path, strings.NewReader(""))
				if err != nil {
					return
				}
				r.Header.Set("X-User", fmt.Sprint("u", n%70))
				if res, err := http.DefaultClient.Do(r); err == nil { // 502: nothing listens upstream
					res.Body.Close()
				}
			}
		}
	}
}
