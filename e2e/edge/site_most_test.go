package edge_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// testSiteMost checks that a request that matches more limits than a store decides together is
// refused like by package httplimit, whatever on_store_error says, and that the log has the reason.
func testSiteMost(t *testing.T, weir string) {
	many := func(from, n int) string {
		limits := make([]string, n)
		for i := range limits {
			limits[i] = fmt.Sprintf("%d/h", from+i)
		}
		return strings.Join(limits, ", ")
	}
	// The check of a file does not find such a request if it depends on conditions.
	policies := fmt.Sprintf(`policies:
  - { name: a, match: 'request.path != "/b"', key: client.ip, limits: [%s], on_store_error: open }
  - { name: b, match: 'request.path != "/a"', key: client.ip, limits: [%s], on_store_error: open }
  - { name: c, match: /c, key: client.ip, limits: 1000/h, on_store_error: open }
`, many(1000, 200), many(2000, 56))
	requests := []string{"GET /a", "GET /b", "GET /", "GET /c", "POST /c", "GET /"}
	d := startSite(t, weir, policies, "")
	s := startGoServer(t, d, policies)
	got, want := d.responseTrace(t, "http://"+d.Addr, 0, requests), d.responseTrace(t, s.URL, 1, requests)
	for i := range want { // a path of 256 limits has long fields, and resets may be a second apart
		if !strings.Contains(want[i], "/c: ") {
			got[i], want[i] = got[i][:len("GET /a: 200")], want[i][:len("GET /a: 200")]
		}
	}
	if !reflect.DeepEqual(got, want) || !strings.HasPrefix(want[3], "GET /c: 503") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	const reason = "enforce: request matches 257 limits of enforced policies, want at most 256, which a store decides together"
	if log := logErrors(d.Log()); !strings.Contains(log, reason) {
		t.Errorf("the log of nginx is %q, want %q", log, reason)
	}
	d.metric(t, `weir_decisions_total{interface="nginx",policy="c",outcome="failed_closed"}`, 2)
}
