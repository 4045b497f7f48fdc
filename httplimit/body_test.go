package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// byBody is a policy for the accounts in a form or a JSON text.
func byBody(limit string) policy.Config {
	return policy.Config{Name: "login", Limits: limits(limit), Match: policy.Match{Methods: []string{"POST"}},
		Key: []policy.KeyPart{{Source: policy.Form, Name: "email"}, {Source: policy.JSON, Name: "user.email"}}}
}

// echo responds with the body of the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		w.Header().Set("Error", err.Error())
		w.WriteHeader(http.StatusBadRequest)
	}
})

// TestBodyKey checks the keys by the body, and that the handler gets the whole body.
func TestBodyKey(t *testing.T) {
	const form, text = "application/x-www-form-urlencoded", "application/json"
	broken := errors.New("connection reset")
	for _, c := range []struct {
		name, media, coding string
		body                io.Reader
		sent                string
		key                 string
		status              int
	}{
		{"form", form, "", nil, "email=Ada%40example.com&x=1", "login|15:ada@example.com|-", 200},
		{"JSON", text, "", nil, `{"user":{"email":"ada"}}`, "login|-|3:ada", 200},
		{"+json", "application/vnd.api+json", "identity", nil, `{"user":{"email":"ada"}}`, "login|-|3:ada", 200},
		{"the largest", form, "", nil, "email=ada&x=" + strings.Repeat("x", 88), "login|3:ada|-", 200},
		{"oversized", form, "", nil, "email=ada&x=" + strings.Repeat("x", 89), "login|-|-", 200},
		{"oversized of unknown length", form, "", iotest.OneByteReader(strings.NewReader("email=ada&x=" + strings.Repeat("x", 1000))), "email=ada&x=" + strings.Repeat("x", 1000), "login|-|-", 200},
		{"in bytes", form, "", iotest.OneByteReader(strings.NewReader("email=ada&x=y")), "email=ada&x=y", "login|3:ada|-", 200},
		{"end with the data", form, "", iotest.DataErrReader(strings.NewReader("email=ada")), "email=ada", "login|3:ada|-", 200},
		{"broken", form, "", io.MultiReader(strings.NewReader("email=ada"), iotest.ErrReader(broken)), "email=ada", "login|-|-", 400},
		{"another type", "text/plain", "", nil, "email=ada", "login|-|-", 200},
		{"encoded", form, "gzip", nil, "email=ada", "login|-|-", 200},
		{"malformed", text, "", nil, `{"user":{"email":"ada"}`, "login|-|-", 200},
		{"empty", form, "", nil, "", "login|-|-", 200},
	} {
		store, keys := recording()
		m, err := httplimit.New(store, set(t, byBody("1/s")), httplimit.Config{Body: httplimit.BodyLimit{Max: 100}})
		if err != nil {
			t.Fatal(err)
		}
		body := c.body
		if body == nil {
			body = strings.NewReader(c.sent)
		}
		r := httptest.NewRequest(http.MethodPost, "/login", body)
		r.Header.Set("Content-Type", c.media)
		if c.coding != "" {
			r.Header.Set("Content-Encoding", c.coding)
		}
		w := httptest.NewRecorder()
		m.Wrap(echo).ServeHTTP(w, r)
		if !keys[c.key] || len(keys) != 1 || w.Code != c.status && w.Header().Get("Error") == "" || w.Body.String() != c.sent {
			t.Errorf("%s: keys %v, %d %q, want %s, %d %q", c.name, keys, w.Code, w.Body, c.key, c.status, c.sent)
		}
		if c.status != 200 && w.Header().Get("Error") != broken.Error() {
			t.Errorf("%s: the handler reads %q, want the error of the connection", c.name, w.Header().Get("Error"))
		}
	}
}

// TestBodyUntouched checks that a body is read only for policies that match, of types with fields.
func TestBodyUntouched(t *testing.T) {
	store, _ := recording()
	m, err := httplimit.New(store, set(t, byBody("1/s")), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"PUT", "application/json"}, {"POST", "text/plain"}, {"POST", ""}} {
		body := io.NopCloser(iotest.ErrReader(errors.New("read")))
		r := httptest.NewRequest(c[0], "/login", body)
		r.Header.Set("Content-Type", c[1])
		m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
			if got.Body != body {
				t.Errorf("%v: the body was replaced", c)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}

// TestSlowBody checks that a body that does not arrive in time has no value, and that the handler
// gets what has arrived, and then an error.
func TestSlowBody(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		store, keys := recording()
		m, err := httplimit.New(store, set(t, byBody("1/s")), httplimit.Config{Body: httplimit.BodyLimit{Timeout: 20 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		s := httptest.NewUnstartedServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text, err = io.ReadAll(r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
				w.WriteHeader(http.StatusRequestTimeout)
			}
		})))
		s.EnableHTTP2, s.Config.ReadTimeout = h2, time.Hour // as weir serve has one
		s.StartTLS()
		in, out := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, in)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		go out.Write([]byte("email=ada")) // and no end
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		out.Close()
		s.Close()
		if res.StatusCode != http.StatusRequestTimeout || (res.ProtoMajor == 2) != h2 || !strings.HasPrefix("email=ada", string(text)) {
			t.Errorf("%s: %d, the handler reads %q", res.Proto, res.StatusCode, text)
		}
		if len(keys) != 1 || !keys["login|-|-"] {
			t.Errorf("%s: keys %v, want that of requests without a value", res.Proto, keys)
		}
	}
}

// TestBodyOfServer checks a limit by account over HTTP/1 and HTTP/2, with and without a length,
// and with Expect: 100-continue.
func TestBodyOfServer(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		m, err := httplimit.New(fakestore.Memory(t), set(t, byBody("1/h")), httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(m.Wrap(echo))
		s.EnableHTTP2 = h2
		s.StartTLS()
		defer s.Close()
		s.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Hour // the server must ask for the body
		for i, want := range []int{200, 429, 429, 429, 200} {
			body := `{"user":{"email":"` + []string{"ada", " ADA", "ada ", "Ada", "bob"}[i] + `"}}`
			var in io.Reader = strings.NewReader(body)
			if i%2 == 1 {
				in = io.MultiReader(in) // of unknown length
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, in)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if i >= 2 {
				r.Header.Set("Expect", "100-continue")
			}
			res, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != want || want == 200 && string(got) != body || (res.ProtoMajor == 2) != h2 {
				t.Errorf("%s, request %d: %d %q, %v, want %d", res.Proto, i, res.StatusCode, got, err, want)
			}
		}
	}
}

func TestBodyLimit(t *testing.T) {
	for _, l := range []httplimit.BodyLimit{{Max: -1}, {Max: 1<<20 + 1}, {Timeout: -1}, {Timeout: time.Minute + 1}} {
		c := httplimit.Config{Body: l}
		if err := c.Check(); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%+v: %v, want it to be invalid", l, err)
		}
	}
	first := httplimit.Classify(set(t, byBody("1/s")), httplimit.ClientAddress{})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("email=a"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if got := first(r); got != "login" {
		t.Errorf("the class is %q, want login", got)
	}
}
