package consoletest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/internal/porttest"
)

// TestDemoInABrowser opens the first page of the demo, presses its buttons and reads the
// results on the page.
func TestDemoInABrowser(t *testing.T) {
	browser := browsertest.Start(t)
	for _, test := range []struct{ n, width int }{{0, 1280}, {1, 1280}, {20, 375}} {
		gateway, api := porttest.Address(t), porttest.Address(t)
		serve(t, "--listen-gateway", gateway, "--listen-http", api)
		p := browser.Page(t, fmt.Sprint(test.n, " requests"), browsertest.Device{Width: test.width})
		p.Open("http://" + gateway + "/")
		p.WaitText("#curl", "curl -i http://"+gateway+"/login")
		if test.n > 0 {
			p.Click(fmt.Sprintf(`button[data-n="%d"]`, test.n))
		}
		p.Await(fmt.Sprintf(`Number(document.querySelector("#yes").textContent) + Number(document.querySelector("#no").textContent) === %d`, test.n))
		yes, headers := int(p.Number(`document.querySelector("#yes").textContent`)), p.Text(`document.querySelector("#headers").innerText`)
		t.Logf("%d requests: %d admitted, headers %q", test.n, yes, headers)
		switch test.n {
		case 1:
			if yes != 1 || !strings.Contains(headers, `"per-client";q=10;w=2`) || strings.Contains(headers, "Retry-After") {
				t.Errorf("1 request: %d admitted with %q, want 1 with the policy's header and no Retry-After", yes, headers)
			}
		case 20:
			// The page itself took 1 of the burst of 10. Up to 5 tokens a second return meanwhile.
			if yes < 9 || yes == 20 || p.Text(`document.querySelector("#list .no").textContent`) != "429" {
				t.Errorf("20 requests: %d admitted, want at least 9, and 429 for the rest", yes)
			}
		}
		// The browser also logs the 429s; the page itself has no errors.
		for _, problem := range p.Errors() {
			if !strings.HasPrefix(problem, "network: ") {
				t.Errorf("%d requests: the page reports %s", test.n, problem)
			}
		}
	}
}
