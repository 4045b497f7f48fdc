package layers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

func TestFilesThatAreRefused(t *testing.T) {
	good := string(layers.Default())
	for _, c := range []struct{ name, file, want string }{
		{"nothing", "", "policies"},
		{"no YAML", "policies: [", "layers.yaml"},
		{"no L4", good[:strings.Index(good, "functions:")], `"shop"`},
		{"L4 without a bound", strings.Replace(good, "bulkhead:", "breaker: { failures: 5 } #", 1), "bulkhead"},
		{"no layer", strings.Replace(good, "Flashsale-Layer: L1", "X-Other: L1", 1), "L1 or L2"},
		{"a layer that is none", strings.Replace(good, "Flashsale-Layer: L1", "Flashsale-Layer: L3", 1), "L1 or L2"},
		{"no policies", "functions: {rules: [{name: shop, bulkhead: {max: 5}}]}", "mode: off"},
		{"an unknown field", strings.Replace(good, "policies:", "polices:", 1), "polices"},
	} {
		_, err := layers.New(layers.Config{Store: store(t), Policies: []byte(c.file)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
		if err != nil && !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%s: %v does not wrap weir.ErrInvalid", c.name, err)
		}
	}
	if _, err := layers.New(layers.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
}

// TestFollow changes the file while requests come: a broken one leaves the one before.
func TestFollow(t *testing.T) {
	l := made(t, layers.Config{})
	path := filepath.Join(t.TempDir(), "layers.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(string(layers.Default()), "20/s burst 40", "1/h burst 3", 1))
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan error, 8)
	var done sync.WaitGroup
	done.Go(func() { _ = l.Watch(ctx, path, func(err error) { reports <- err }) })
	defer done.Wait()
	defer cancel()
	admits := func(want int, addr string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			n, by := passes(l, 50, func(int) *http.Request { return from("GET", "/api/time", addr, "") })
			if n == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d of 50 admitted, want %d: %v", n, want, by)
			}
			addr = "198.51.100." + strconv.Itoa(time.Now().Nanosecond()%250) + ":1"
			<-time.After(20 * time.Millisecond)
		}
	}
	admits(3, "192.0.2.1:1")
	write("policies: [")
	if err := <-reports; err == nil {
		t.Error("an invalid file is not reported")
	}
	admits(3, "192.0.2.2:1")
	write(strings.Replace(string(layers.Default()), "20/s burst 40", "1/h burst 7", 1))
	if err := <-reports; err != nil {
		t.Errorf("the file is well again: %v", err)
	}
	admits(7, "192.0.2.3:1")
}

func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(t, layers.Config{})
		try := func(addr, name string, failed bool) bool {
			done, retry, ok := l.Login(t.Context(), from("POST", "/", addr, ""), name)
			if ok {
				done(failed)
			} else if retry < time.Second {
				t.Errorf("retry after %v", retry)
			}
			return ok
		}
		for range 100 {
			if !try("192.0.2.1:1", "good", false) {
				t.Fatal("logins that succeed are limited")
			}
		}
		fails := func(n int, addr, name func(i int) string) (tried int) {
			for i := range n {
				if try(addr(i), name(i), true) {
					tried++
				}
			}
			return tried
		}
		is := func(text string) func(int) string { return func(int) string { return text } }
		each := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
		// Who guesses a name at one address has five tries there, however it is spelled, and
		// the merchant at another has them all.
		if n := fails(100, is("198.51.100.1:1"), func(i int) string { return []string{"Name", "name"}[i%2] }); n != 5 {
			t.Errorf("%d failed logins of a name at an address, want 5", n)
		}
		if n := fails(100, each("[2001:db8::%x]:1"), is("name")); n != 5 {
			t.Errorf("%d failed logins of a name at a network of IPv6, want 5", n)
		}
		if !try("192.0.2.7:1", "name", false) {
			t.Error("who guesses a name at two addresses keeps its merchant out at a third")
		}
		if n := fails(100, is("192.0.2.9:1"), each("name%d")); n != 20 {
			t.Errorf("%d failed logins of an address, want 20", n)
		}
		if n := fails(300, func(i int) string { return fmt.Sprintf("203.0.%d.1:1", i/5) }, is("other")); n != 100 {
			t.Errorf("%d failed logins of a name, want 100", n)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		f      layers.Refusal
		status int
		retry  string
		body   string
	}{
		{layers.Refusal{Reason: layers.Invalid, Detail: "a\"\\<\x01\u2028é", Field: "sku"}, 400, "", `{"type":"about:blank","title":"Bad Request","status":400,"detail":"a\"\\\u003c\u0001\u2028é","reason":"invalid","field":"sku"}`},
		{layers.Refusal{Layer: sale.L0, Reason: sale.IsSoldOut}, 410, "", `{"type":"about:blank","title":"Gone","status":410,"detail":"sold out","layer":"L0","reason":"sold_out"}`},
		{layers.Refusal{Layer: sale.LS, Reason: sale.PerUserLimit}, 409, "", `{"type":"about:blank","title":"Conflict","status":409,"detail":"you hold the maximum number of units","layer":"stock","reason":"per_user"}`},
		{layers.Refusal{Reason: "new", RetryAfter: time.Millisecond}, 503, "1", ""},
	} {
		w := httptest.NewRecorder()
		c.f.Write(w)
		if w.Code != c.status || w.Header().Get("Retry-After") != c.retry || c.body != "" && strings.TrimSpace(w.Body.String()) != c.body {
			t.Errorf("%+v: %d %v %s", c.f, w.Code, w.Header(), w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%+v: no JSON: %s", c.f, w.Body)
		}
	}
	late := map[string]bool{}
	for range 200 {
		w := httptest.NewRecorder()
		layers.Refusal{Layer: sale.L0, Reason: sale.NotStarted, RetryAfter: time.Hour}.Write(w)
		s, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		if s < 3600 || s > 3602 {
			t.Fatalf("Retry-After %d, want 3600 to 3602: never early, and not long after the start", s)
		}
		late[w.Header().Get("Retry-After")] = true
	}
	if len(late) < 2 {
		t.Error("no jitter")
	}
}
