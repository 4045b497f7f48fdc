package e2e_test

import (
	"context"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestDemoInABrowser opens the first page of the demonstration as a browser does,
// presses its buttons, and reads what the page says then.
func TestDemoInABrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test needs a browser: install it (Debian: apt-get install chromium): %v", err)
	}
	binary := build(t)
	for _, test := range []struct{ hash, width string }{{"", "1280"}, {"#send-1", "1280"}, {"#send-20", "375"}} {
		gateway, api := freeAddress(t), freeAddress(t)
		startProcess(t, binary, "serve", "--listen-gateway", gateway, "--listen-http", api)
		awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		browser := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
			"--user-data-dir="+t.TempDir(), "--window-size="+test.width+",900", "--virtual-time-budget=3000", "--dump-dom", "http://"+gateway+"/"+test.hash)
		browser.WaitDelay = 5 * time.Second // its children keep the output open
		dom, err := browser.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", test.hash, err, dom)
		}
		find := func(pattern string) string {
			if m := regexp.MustCompile(pattern).FindSubmatch(dom); m != nil {
				return string(m[1])
			}
			return ""
		}
		yes, _ := strconv.Atoi(find(`id="yes">(\d+)<`))
		no, _ := strconv.Atoi(find(`id="no">(\d+)<`))
		policy, retry, wait := find(`RateLimit-Policy</dt><dd>([^<]*)`), find(`Retry-After</dt><dd>(\d+)`), find(`id="wait">([^<]*)`)
		t.Logf("%q at %s px: %d admitted, %d denied, %q, Retry-After %q, %q", test.hash, test.width, yes, no, policy, retry, wait)
		switch test.hash {
		case "":
			if yes+no != 0 || find(`(curl -i http://`+gateway+`/login)`) == "" {
				t.Errorf("the page at rest: %d admitted, %d denied, want 0 and the commands for a shell\n%s", yes, no, dom)
			}
		case "#send-1":
			if yes != 1 || no != 0 || policy != `"per-client";q=10;w=2` || retry != "" {
				t.Errorf("1 request: %d admitted, %d denied, %s, Retry-After %s, want 1 admitted", yes, no, policy, retry)
			}
		case "#send-20":
			// The page itself took 1 of 10; up to 5 come in a second.
			if yes+no != 20 || yes < 9 || no == 0 || find(`(<li class="no">429</li>)`) == "" {
				t.Errorf("20 requests: %d admitted, %d denied, want 9 and what came meanwhile, and the rest denied\n%s", yes, no, dom)
			}
		}
	}
}
