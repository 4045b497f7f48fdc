package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/transport"
)

// TestObeys checks that a server's response pauses later requests of its key.
func TestObeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.answer = func(call int, r *http.Request) (*http.Response, error) {
			if call == 1 {
				return s.response(r, 429, "Retry-After", "5"), nil
			}
			return s.response(r, 200), nil
		}
		rt := open(t, transport.Config{Base: s, MaxWait: 4 * time.Second})
		if status, err := get(t, rt, api); status != 429 || err != nil {
			t.Fatalf("first = %d, %v", status, err)
		}
		_, err := get(t, rt, api)
		if d := denial(t, err); !d.Server || d.Decision.RetryAfter != 5*time.Second || !d.Decision.Limit.IsZero() {
			t.Errorf("denied %+v", d)
		}
		if _, err := get(t, rt, "http://other.example.com/"); err != nil {
			t.Errorf("another host: %v", err)
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		for range 3 {
			go func() {
				if status, err := get(t, rt, api); status != 200 || err != nil || time.Since(start) != 3*time.Second {
					t.Errorf("later = %d, %v after %v", status, err, time.Since(start))
				}
			}()
		}
		synctest.Wait()
		if s.seen() != 2 {
			t.Errorf("the server saw %d requests while it asked for a pause", s.seen())
		}
		time.Sleep(time.Minute)
		if s.seen() != 5 {
			t.Errorf("the server saw %d requests", s.seen())
		}
	})
}

// TestHoldIsBounded checks MaxPause and MaxPausedKeys.
func TestHoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.answer = func(_ int, r *http.Request) (*http.Response, error) {
			return s.response(r, 503, "Retry-After", "99999999999999999999999"), nil
		}
		rt := open(t, transport.Config{Base: s, MaxPausedKeys: 2})
		host := func(i int) string { return fmt.Sprintf("http://%d.example.com/", i) }
		for i := range 3 {
			if _, err := get(t, rt, host(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := get(t, rt, host(2)); denial(t, err).Decision.RetryAfter != transport.DefaultMaxPause {
			t.Errorf("held for %v, want %v", denial(t, err).Decision.RetryAfter, transport.DefaultMaxPause)
		}
		if _, err := get(t, rt, host(0)); err != nil {
			t.Errorf("the oldest pause is still recorded: %v", err)
		}
		time.Sleep(transport.DefaultMaxPause)
		if _, err := get(t, rt, host(2)); err != nil {
			t.Errorf("after the longest hold: %v", err)
		}
	})
}

// TestHoldTakesNothing checks that a later response does not shorten a pause, and that a
// paused request takes no tokens.
func TestHoldTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		release := make(chan struct{})
		s.answer = func(call int, r *http.Request) (*http.Response, error) {
			if call == 1 {
				<-release
				return s.response(r, 429, "Retry-After", "1"), nil
			}
			return s.response(r, 429, "Retry-After", "10"), nil
		}
		rt := open(t, transport.Config{Base: s, Limits: limits("4/24h")})
		go get(t, rt, api)
		synctest.Wait()
		if _, err := get(t, rt, api); err != nil {
			t.Fatal(err)
		}
		close(release)
		synctest.Wait()
		for range 5 {
			if _, err := get(t, rt, api); denial(t, err).Decision.RetryAfter != 10*time.Second {
				t.Errorf("%v, want 10s", err)
			}
		}
		for range 2 {
			time.Sleep(10 * time.Second)
			if _, err := get(t, rt, api); err != nil {
				t.Errorf("of four tokens two were left: %v", err)
			}
		}
		time.Sleep(10 * time.Second)
		if _, err := get(t, rt, api); denial(t, err).Server {
			t.Errorf("%v, want the limit", err)
		}
	})
}

func TestIgnoreServer(t *testing.T) {
	s := &server{}
	s.answer = func(_ int, r *http.Request) (*http.Response, error) {
		return s.response(r, 429, "Retry-After", "5"), nil
	}
	rt := open(t, transport.Config{Base: s, IgnoreServer: true})
	for range 3 {
		if status, err := get(t, rt, api); status != 429 || err != nil {
			t.Errorf("%d, %v", status, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	date := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return strconv.FormatInt(date.Add(d).Unix(), 10) }
	const silent = -1
	for _, c := range []struct {
		status int
		fields []string
		want   time.Duration
	}{
		{200, nil, silent},
		{429, nil, silent},
		{429, []string{"Retry-After", "7"}, 7 * time.Second},
		{503, []string{"Retry-After", " 7 "}, 7 * time.Second},
		{429, []string{"Retry-After", "0"}, 0},
		{429, []string{"Retry-After", date.Add(90 * time.Second).Format(http.TimeFormat)}, 90 * time.Second},
		{429, []string{"Retry-After", date.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		{429, []string{"Retry-After", "1e9"}, silent},
		{429, []string{"Retry-After", "-5"}, silent},
		{429, []string{"Retry-After", "soon"}, silent},
		{429, []string{"Retry-After", "9999999999999999999999"}, weir.Never},
		{429, []string{"Retry-After", "9223372036.854775"}, weir.Never},
		{429, []string{"Retry-After", "9223372036.854776"}, weir.Never},
		{429, []string{"Retry-After", "9223372036.85"}, 9223372036850 * time.Millisecond},
		{302, []string{"Retry-After", "7"}, silent},
		{200, []string{"Retry-After", "7"}, silent},
		{500, []string{"Retry-After", "7"}, silent},
		// drafts 08 and later
		{200, []string{"RateLimit", `"burst";r=0;t=5`}, 5 * time.Second},
		{200, []string{"RateLimit", `"burst";r=3;t=5`}, 0},
		{200, []string{"RateLimit", `"burst";r=0;t=5, "day";r=0;t=60;pk=:YWJj:, "month";r=9;t=9999`}, time.Minute},
		{200, []string{"RateLimit", `"a";r=0;t=5`, "RateLimit", `"b";r=0;t=6`}, 6 * time.Second},
		{200, []string{"RateLimit", `burst;r=0;t=5`}, 5 * time.Second},
		{200, []string{"RateLimit", `"a\"b";r=0;t=5;x="y, \"z\"";b=?1;d=@1;e`}, 5 * time.Second},
		{200, []string{"RateLimit", `"burst";r=0`, "RateLimit-Policy", `"day";q=1;w=9, "burst";q=10;w=60`}, time.Minute},
		{200, []string{"RateLimit", `"burst";r=0`}, silent},
		{200, []string{"RateLimit", `"burst";t=5`}, silent},
		{200, []string{"RateLimit", `"burst";r=-1;t=5`}, silent},
		{200, []string{"RateLimit", `"burst";r=0;t=-5`}, silent},
		{200, []string{"RateLimit", `"burst";r=0;t=5,`}, silent},
		{200, []string{"RateLimit", `"burst;r=0;t=5`}, silent},
		{200, []string{"RateLimit", `("a" "b");r=0;t=5`}, silent},
		{200, []string{"RateLimit", `"burst";r=0;t=1234567890123456`}, silent},
		{429, []string{"Retry-After", "3", "RateLimit", `"burst";r=0;t=5`}, 3 * time.Second},
		{429, []string{"Retry-After", "x", "RateLimit", `"burst";r=0;t=5`}, 5 * time.Second},
		// draft 07
		{200, []string{"RateLimit", `limit=10, remaining=0, reset=8`}, 8 * time.Second},
		{200, []string{"RateLimit", `limit=10, remaining=1, reset=8`}, 0},
		{200, []string{"RateLimit", `limit=10, remaining=0`}, silent},
		// drafts 00 to 06
		{200, []string{"RateLimit-Limit", "10, 10;w=1", "RateLimit-Remaining", "0", "RateLimit-Reset", "9"}, 9 * time.Second},
		{200, []string{"RateLimit-Remaining", "1", "RateLimit-Reset", "9"}, 0},
		{200, []string{"RateLimit-Remaining", "0", "RateLimit-Reset", at(time.Minute)}, time.Minute},
		// what there was before
		{200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"}, 30 * time.Second},
		{200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "0.5"}, 500 * time.Millisecond},
		{403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", at(time.Hour)}, time.Hour},
		{200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", at(-time.Hour)}, 0},
		{200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", at(time.Hour) + "000"}, time.Hour},
		{200, []string{"X-Rate-Limit-Remaining", "0", "X-Rate-Limit-Reset", at(time.Hour)}, time.Hour},
		{200, []string{"X-RateLimit-Remaining", "17", "X-RateLimit-Reset", "30"}, 0},
		{429, []string{"X-RateLimit-Remaining", "17", "X-RateLimit-Reset", "30"}, silent},
		{429, []string{"X-RateLimit-Reset", "30"}, 30 * time.Second},
		{200, []string{"X-RateLimit-Reset", "30"}, silent},
		{200, []string{"X-RateLimit-Remaining", "-1", "X-RateLimit-Reset", "30"}, silent},
		{200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "tomorrow"}, silent},
		{200, []string{"RateLimit", "]", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"}, 30 * time.Second},
	} {
		s := &server{}
		resp := s.response(nil, c.status, append(c.fields, "Date", date.Format(http.TimeFormat))...)
		got, ok := transport.RetryAfter(resp)
		if !ok {
			got = silent
		}
		if got != c.want {
			t.Errorf("RetryAfter(%d %v) = %v, want %v", c.status, c.fields, got, c.want)
		}
	}
}

// TestRetryAfterWithoutDate checks that a Unix time is compared with the local clock if the response
// has no Date.
func TestRetryAfterWithoutDate(t *testing.T) {
	s := &server{}
	until := time.Now().Add(time.Hour)
	for _, fields := range [][]string{
		{"Retry-After", until.UTC().Format(http.TimeFormat)},
		{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(until.Unix(), 10)},
	} {
		got, ok := transport.RetryAfter(s.response(nil, 429, fields...))
		if !ok || got > time.Hour || got < time.Hour-time.Minute {
			t.Errorf("RetryAfter(%v) = %v, %v, want about an hour", fields, got, ok)
		}
	}
}

// TestEveryForm checks that a Transport obeys every form that httplimit sends.
func TestEveryForm(t *testing.T) {
	for _, form := range []string{"legacy", "draft-03", "draft-06", "draft-07", "draft-08"} {
		fields, err := httplimit.ParseFields(form)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.New(policy.Config{Name: "day", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: limits("2/60s burst 2"), OnStoreError: policy.Closed})
		if err != nil {
			t.Fatal(err)
		}
		set, err := policy.NewSet(p)
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(fakestore.Memory(t), set, httplimit.Config{Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		srv := httptest.NewServer(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ })))
		defer srv.Close()
		rt := open(t, transport.Config{})
		client := &http.Client{Transport: rt}
		for i := range 3 {
			resp, err := client.Get(srv.URL)
			if i < 2 {
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("%s: %v, %v", form, resp, err)
				}
				resp.Body.Close()
				continue
			}
			if !errors.Is(err, transport.ErrDenied) {
				t.Errorf("%s: the third request is %v, want a denial: the server said that nothing is left", form, err)
			}
		}
		if calls != 2 {
			t.Errorf("%s: %d calls", form, calls)
		}
		client.CloseIdleConnections()
	}
}

// FuzzRetryAfter checks that a pause is never negative, for any header.
func FuzzRetryAfter(f *testing.F) {
	f.Add(429, "5", `"a";r=0;t=5, "b";r=1;pk=:YQ==:`, `"a";q=5;w=60`, "0", "1700000000")
	f.Add(200, "Wed, 21 Oct 2015 07:28:00 GMT", `limit=10, remaining=0, reset=5`, "10;w=60", "", "1.5")
	f.Add(503, "-1", `"a\"";r=0.5;t=@3;x=?1;*k=tok/en:*, (a)`, ``, "9e9", "99999999999999999999")
	f.Fuzz(func(t *testing.T, status int, retryAfter, limit, policies, remaining, reset string) {
		h := http.Header{
			"Retry-After": {retryAfter}, "Ratelimit": {limit}, "Ratelimit-Policy": {policies},
			"Ratelimit-Remaining": {remaining}, "Ratelimit-Reset": {reset},
			"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}, "Date": {retryAfter},
		}
		d, ok := transport.RetryAfter(&http.Response{StatusCode: status, Header: h})
		if d < 0 || !ok && d != 0 {
			t.Errorf("RetryAfter = %v, %v", d, ok)
		}
	})
}
