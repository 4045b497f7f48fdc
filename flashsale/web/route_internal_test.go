package web

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzWhereTo: what is answered has one spelling.
func FuzzWhereTo(f *testing.F) {
	for _, s := range []string{"/", "/api/sales/a1/ticket", "/api/orders/abc/pay", "//api", "/api/..%2f", "/api/sales/a1;x", "/%61pi/time"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		at, id := whereTo(u)
		if at == nowhere || at == page {
			return
		}
		if u.EscapedPath() != u.Path || strings.ContainsAny(u.Path, ";%\\") || strings.Contains(u.Path, "..") || !strings.HasPrefix(u.Path, "/api/") || id != "" && !isReceipt(id) {
			t.Errorf("%q is answered as %d %q", path, at, id)
		}
	})
}
