package programs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/programs"
)

// ask sends a request with fields, pairs of name and value.
func ask(t *testing.T, h http.Handler, ctx context.Context, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/published", nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTexts(t *testing.T) {
	texts := programs.NewTexts()
	if w := ask(t, texts, t.Context()); w.Code != 404 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("without a text = %d %s, want a problem with 404", w.Code, w.Body)
	}
	texts.Set(7, "policies: []\n")
	w := ask(t, texts, t.Context())
	tag := w.Header().Get("ETag")
	if w.Code != 200 || w.Body.String() != "policies: []\n" || w.Header().Get("Weir-Version") != "7" || tag == "" || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("GET = %d %v %s", w.Code, w.Header(), w.Body)
	}
	for field, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, `"x"`: 200, "*": 304, tag[:len(tag)-1]: 200} {
		if w := ask(t, texts, t.Context(), "If-None-Match", field); w.Code != want {
			t.Errorf("If-None-Match: %s = %d, want %d", field, w.Code, want)
		}
	}
	for _, c := range []struct {
		number int64
		text   string
	}{{7, "policies: [1]\n"}, {8, "policies: [1]\n"}} { // another Redis, a rollback
		texts.Set(c.number, c.text)
		w := ask(t, texts, t.Context(), "If-None-Match", tag)
		if w.Code != 200 || w.Header().Get("ETag") == tag {
			t.Errorf("version %d: %d with the tag %s, want another one", c.number, w.Code, w.Header().Get("ETag"))
		}
		tag = w.Header().Get("ETag")
	}
}

// TestTextsHeld checks how long a request is held back, and that a change ends it.
func TestTextsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		texts := programs.NewTexts()
		texts.Set(1, "one")
		tag := ask(t, texts, t.Context()).Header().Get("ETag")
		after := func(d time.Duration, do func()) { time.AfterFunc(d, do) }
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []struct {
			name   string
			fields []string
			do     func()
			status int
			took   time.Duration
		}{
			{"no preference", []string{"If-None-Match", tag}, nil, 304, 0},
			{"no tag", []string{"Prefer", "wait=10"}, nil, 200, 0},
			{"another tag", []string{"Prefer", "wait=10", "If-None-Match", `"x"`}, nil, 200, 0},
			{"bad values", []string{"Prefer", "wait=-1", "Prefer", "wait=x, wait=", "If-None-Match", tag}, nil, 304, 0},
			{"ten seconds", []string{"Prefer", "respond-async, Wait=10", "If-None-Match", tag}, nil, 304, 10 * time.Second},
			{"too long", []string{"Prefer", "wait=4000", "If-None-Match", tag}, nil, 304, 20 * time.Second},
			{"canceled", []string{"Prefer", "wait=10", "If-None-Match", tag}, func() { after(time.Second, cancel) }, 304, time.Second},
			{"a change", []string{"Prefer", "wait=10", "If-None-Match", tag}, func() { after(3*time.Second, func() { texts.Set(2, "two") }) }, 200, 3 * time.Second},
		} {
			if c.do != nil {
				c.do()
			}
			begin := time.Now()
			w := ask(t, texts, ctx, c.fields...)
			if took := time.Since(begin); w.Code != c.status || took != c.took {
				t.Errorf("%s: %d after %v, want %d after %v", c.name, w.Code, took, c.status, c.took)
			}
			if c.name == "canceled" {
				ctx = t.Context()
			}
		}
		tag = ask(t, texts, t.Context()).Header().Get("ETag")
		done := make(chan int, 2000)
		hold := func() {
			done <- ask(t, texts, t.Context(), "Prefer", "wait=20", "If-None-Match", tag).Code
		}
		for range 1001 {
			go hold()
		}
		synctest.Wait()
		if n := len(done); n != 1 {
			t.Errorf("%d of 1001 requests are answered at once, want 1", n)
		}
		texts.Close()
		synctest.Wait()
		if n := len(done); n != 1001 {
			t.Errorf("%d of 1001 requests are answered after Close, want all", n)
		}
		begin := time.Now()
		if hold(); time.Since(begin) != 0 {
			t.Error("a request is held back after Close")
		}
	})
}
