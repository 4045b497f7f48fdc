package access_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/httplimit"
)

func line(role, name, token string) string {
	hash := sha256.Sum256([]byte(token))
	return role + " " + name + " " + hex.EncodeToString(hash[:]) + "\n"
}

const (
	meiToken = "token-of-mei-0123456789"
	anaToken = "token-of-ana-0123456789"
)

var users = "# people\n" + line("operate", "mei", meiToken) + "\n" + line("read", "ana", anaToken)

// A site is an Access with its session handler, and a browser's cookie.
type site struct {
	t       *testing.T
	access  *access.Access
	handler http.Handler
	cookie  *http.Cookie
}

func newSite(t *testing.T, c access.Config) *site {
	t.Helper()
	c.Interface = "admin"
	c.Public = func(r *http.Request) bool { return r.URL.Path == "/v1/session" }
	a, err := access.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, access: a}
	s.handler = a.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/session" {
			a.Session().ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/stream" {
			<-r.Context().Done()
		}
		fmt.Fprint(w, access.ActorOf(r.Context()))
	}))
	return s
}

// do sends a request with the cookie; change may alter it.
func (s *site) do(method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:9090"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5000"
	if s.cookie != nil {
		r.AddCookie(s.cookie)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		s.cookie = c
	}
	return w
}

func (s *site) signIn(token string, change func(*http.Request)) *httptest.ResponseRecorder {
	return s.do(http.MethodPost, "/v1/session", fmt.Sprintf(`{"token": %q}`, token), change)
}

// want checks the actor of a request with the cookie; "" means that it is refused.
func (s *site) want(when, actor string) {
	s.t.Helper()
	w := s.do(http.MethodGet, "/who", "", nil)
	if actor == "" && w.Code != http.StatusUnauthorized || actor != "" && w.Body.String() != actor {
		s.t.Errorf("%s: %d %s, want %q", when, w.Code, w.Body, actor)
	}
}

// TestSession checks sign-in, the session's limits in time, and sign-out.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Config{Token: users})
		if w := s.do(http.MethodGet, "/v1/session", "", nil); w.Body.String() != `{"name":"","role":"","required":true}`+"\n" {
			t.Errorf("before sign-in: %s", w.Body)
		}
		s.want("before", "")
		if w := s.signIn("wrong", nil); w.Code != http.StatusUnauthorized || s.cookie != nil {
			t.Errorf("wrong token: %d, cookie %v", w.Code, s.cookie)
		}
		for _, body := range []string{"", "{}", `{"token":1}`, "x"} {
			if w := s.do(http.MethodPost, "/v1/session", body, nil); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"field":"token"`) {
				t.Errorf("%q: %d %s", body, w.Code, w.Body)
			}
		}
		if w := s.do(http.MethodPost, "/v1/session", strings.Repeat("x", 9000), nil); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("large body: %d", w.Code)
		}
		w := s.signIn(anaToken, nil)
		if c := s.cookie; w.Code != 200 || c.Name != "weir-session" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" ||
			strings.Contains(w.Body.String(), anaToken) || strings.Contains(c.Value, anaToken) {
			t.Fatalf("sign-in: %d %s %v", w.Code, w.Body, c)
		}
		first := s.cookie
		s.want("after", "{ana read web}")
		if w := s.do(http.MethodGet, "/v1/session", "", nil); w.Body.String() != `{"name":"ana","role":"read","required":true}`+"\n" {
			t.Errorf("after sign-in: %s", w.Body)
		}
		s.signIn(meiToken, nil)
		s.want("as another user", "{mei operate web}")
		second := s.cookie
		s.cookie = first
		s.want("the session that the sign-in replaced", "")
		s.cookie = second
		time.Sleep(time.Hour - time.Second)
		s.want("after 59 minutes", "{mei operate web}")
		time.Sleep(time.Hour)
		s.want("after an idle hour", "")

		s.signIn(meiToken, nil)
		for range 13 {
			time.Sleep(55 * time.Minute)
			s.want("in use", "{mei operate web}")
		}
		time.Sleep(5 * time.Minute)
		s.want("after 12 hours", "")

		s.signIn(meiToken, nil)
		id := s.cookie
		if w := s.do(http.MethodDelete, "/v1/session", "", nil); w.Code != http.StatusNoContent || s.cookie.MaxAge >= 0 {
			t.Errorf("sign-out: %d %v", w.Code, s.cookie)
		}
		s.cookie = id
		s.want("after sign-out", "")
	})
}

// TestRemovedTokenEndsSessions checks that sessions and requests of a token end when its
// line is removed or changed, and no others.
func TestRemovedTokenEndsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Config{Token: users})
		s.signIn(meiToken, nil)
		streams := make(chan string, 2)
		stream := func(headers func(*http.Request)) {
			streams <- s.do(http.MethodGet, "/stream", "", headers).Body.String()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go stream(func(r *http.Request) { *r = *r.WithContext(ctx) })
		synctest.Wait()
		time.Sleep(2 * time.Hour) // the stream is in use
		s.want("with a stream", "{mei operate web}")
		set := func(text string) {
			t.Helper()
			if err := s.access.SetToken(text); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		set(line("read", "ana", anaToken+"2") + line("operate", "mei", meiToken))
		s.want("after a change of another line", "{mei operate web}")
		if len(streams) > 0 {
			t.Error("the stream ended after a change of another line")
		}
		for _, bad := range []string{"", "short", "operate mei", line("admin", "mei", meiToken), line("read", "a b", meiToken), line("read", "mei", meiToken) + line("read", "x", meiToken)} {
			if err := s.access.SetToken(bad); !errors.Is(err, weir.ErrInvalid) || strings.Contains(err.Error(), "mei") {
				t.Errorf("%q: %v", bad, err)
			}
		}
		s.want("after invalid credentials", "{mei operate web}")
		set(line("read", "mei", meiToken))
		if len(streams) != 1 {
			t.Error("the stream goes on after its token was changed")
		}
		s.want("after a change of the role", "")
		cancel()
		s.signIn(meiToken, nil)
		s.want("after a new sign-in", "{mei read web}")
		set(token)
		s.want("after a plain token", "")
		s.cookie = nil
		bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
		if w := s.do(http.MethodGet, "/who", "", bearer); w.Body.String() != "{admin operate http}" {
			t.Errorf("plain token: %s", w.Body)
		}
	})
}

// TestTransport checks over which connections a browser gets a session, and which cookie.
func TestTransport(t *testing.T) {
	proxy := httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	forwarded := proxy
	forwarded.Header = "Forwarded"
	type headers map[string]string
	for _, test := range []struct {
		name       string
		client     httplimit.ClientAddress
		peer, host string
		tls        bool
		headers    headers
		cookie     string
	}{
		{"loopback", proxy, "127.0.0.1:1", "127.0.0.1:9090", false, nil, "weir-session"},
		{"localhost", proxy, "[::1]:1", "localhost:9090", false, nil, "weir-session"},
		{"TLS", proxy, "192.0.2.1:1", "weir.example", true, nil, "__Host-weir-session"},
		{"other machine", proxy, "192.0.2.1:1", "192.0.2.9:9090", false, nil, ""},
		{"other machine, loopback as host", proxy, "192.0.2.1:1", "127.0.0.1:9090", false, nil, ""},
		{"proxy on this machine", proxy, "127.0.0.1:1", "weir.example", false, nil, ""},
		{"proxy on this machine, rewritten host", proxy, "127.0.0.1:1", "127.0.0.1:9090", false, headers{"X-Forwarded-For": "192.0.2.1"}, ""},
		{"untrusted proxy", proxy, "192.0.2.1:1", "weir.example", false, headers{"X-Forwarded-Proto": "https"}, ""},
		{"trusted proxy, https", proxy, "10.0.0.1:1", "weir.example", false, headers{"X-Forwarded-Proto": "https"}, "__Host-weir-session"},
		{"trusted proxy, mapped address", proxy, "[::ffff:10.0.0.1]:1", "weir.example", false, headers{"X-Forwarded-Proto": "HTTPS"}, "__Host-weir-session"},
		{"trusted proxy, http", proxy, "10.0.0.1:1", "weir.example", false, headers{"X-Forwarded-Proto": "http"}, ""},
		{"trusted proxy, forged by the client", proxy, "10.0.0.1:1", "weir.example", false, headers{"X-Forwarded-Proto": "https, http"}, ""},
		{"trusted proxy, other header", proxy, "10.0.0.1:1", "weir.example", false, headers{"Forwarded": "proto=https"}, ""},
		{"trusted proxy, Forwarded", forwarded, "10.0.0.1:1", "weir.example", false, headers{"Forwarded": `for=192.0.2.1; Proto="https"`}, "__Host-weir-session"},
		{"trusted proxy, Forwarded with http last", forwarded, "10.0.0.1:1", "weir.example", false, headers{"Forwarded": "proto=https, proto=http"}, ""},
	} {
		s := newSite(t, access.Config{Token: users, Client: test.client})
		change := func(r *http.Request) {
			r.RemoteAddr, r.Host = test.peer, test.host
			if test.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for name, value := range test.headers {
				r.Header.Set(name, value)
			}
		}
		w := s.signIn(meiToken, change)
		switch {
		case test.cookie == "":
			var p struct{ Field, Expected string }
			if json.Unmarshal(w.Body.Bytes(), &p) != nil || w.Code != http.StatusForbidden || s.cookie != nil || p.Expected != "https" {
				t.Errorf("%s: %d %s %v, want 403", test.name, w.Code, w.Body, s.cookie)
			}
		case w.Code != 200 || s.cookie == nil || s.cookie.Name != test.cookie || s.cookie.Secure != strings.HasPrefix(test.cookie, "__Host-") || s.cookie.Domain != "":
			t.Errorf("%s: %d %s %v, want the cookie %s", test.name, w.Code, w.Body, s.cookie, test.cookie)
		default:
			if w := s.do(http.MethodGet, "/who", "", change); w.Body.String() != "{mei operate web}" {
				t.Errorf("%s: the session gives %d %s", test.name, w.Code, w.Body)
			}
		}
	}
}

// TestSessionsAreBounded checks that a token has at most 16 sessions: the least recently
// used one ends. Sessions of other tokens stay.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Config{Token: users})
		s.signIn(anaToken, nil)
		ana := s.cookie
		var all []*http.Cookie
		for range 16 {
			s.cookie = nil
			s.signIn(meiToken, nil)
			all = append(all, s.cookie)
			time.Sleep(time.Second)
		}
		s.cookie = all[0]
		s.want("the first, now used", "{mei operate web}")
		s.cookie = nil
		s.signIn(meiToken, nil)
		for i, c := range all {
			s.cookie = c
			want := "{mei operate web}"
			if i == 1 {
				want = ""
			}
			s.want(fmt.Sprint("session ", i), want)
		}
		s.cookie = ana
		s.want("another token", "{ana read web}")
	})
}

// TestWrongTokensAreCountedTogether checks that sign-in and Authorization share the limit,
// and that clients of a trusted proxy have one each.
func TestWrongTokensAreCountedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := map[string]int{}
		s := newSite(t, access.Config{
			Token: users, Client: httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
			Failed: func(_ context.Context, address, via string) { failed[address+" "+via]++ },
		})
		from := func(addr, authorization string) func(*http.Request) {
			return func(r *http.Request) {
				r.Header.Set("X-Forwarded-For", addr)
				r.Header.Set("X-Forwarded-Proto", "https")
				if authorization != "" {
					r.Header.Set("Authorization", "Bearer "+authorization)
				}
			}
		}
		for i := range 5 {
			if w := s.signIn("wrong", from("192.0.2.1", "")); w.Code != 401 {
				t.Fatalf("sign-in %d: %d", i, w.Code)
			}
			if w := s.do(http.MethodGet, "/who", "", from("192.0.2.1", "wrong")); w.Code != 401 {
				t.Fatalf("request %d: %d", i, w.Code)
			}
		}
		if w := s.signIn(meiToken, from("192.0.2.1", "")); w.Code != 429 || w.Header().Get("Retry-After") != "6" {
			t.Errorf("after ten wrong tokens: %d %v", w.Code, w.Header())
		}
		if w := s.signIn(meiToken, from("192.0.2.2", "")); w.Code != 200 {
			t.Errorf("another client of the proxy: %d", w.Code)
		}
		if len(failed) != 1 || failed["192.0.2.1 http"] != 10 {
			t.Errorf("failed: %v, want ten of one address", failed)
		}
	})
}

// TestNewToken checks that the line of a new token admits it.
func TestNewToken(t *testing.T) {
	token, line, err := access.NewToken(access.Read, "mei@example.com")
	if err != nil || len(token) < 26 {
		t.Fatal(token, err)
	}
	s := newSite(t, access.Config{Token: line})
	if w := s.do(http.MethodGet, "/who", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); w.Body.String() != "{mei@example.com read http}" {
		t.Errorf("the token gives %d %s", w.Code, w.Body)
	}
	for _, bad := range [][2]string{{"admin", "mei"}, {"public", "mei"}, {"read", ""}, {"read", "a b"}, {"read", "-x"}, {"read", strings.Repeat("x", 65)}} {
		if _, _, err := access.NewToken(access.Role(bad[0]), bad[1]); err == nil {
			t.Errorf("NewToken(%q) succeeded", bad)
		}
	}
}

// TestSigned checks that each sign-in and each end of a session by its user is reported once.
func TestSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		s := newSite(t, access.Config{Token: users, Signed: func(_ context.Context, name, via, action string) {
			got = append(got, strings.Join([]string{name, via, action}, " "))
		}})
		signOut := func() { s.do(http.MethodDelete, "/v1/session", "", nil) }
		signOut() // without a session
		s.signIn("wrong", nil)
		s.signIn(meiToken, nil)
		old := s.cookie
		s.do(http.MethodGet, "/who", "", nil)
		signOut()
		s.cookie = old
		signOut() // of a session that has ended
		s.signIn(anaToken, nil)
		time.Sleep(13 * time.Hour)
		signOut()
		if want := "mei web sign_in, mei web sign_out, ana web sign_in"; strings.Join(got, ", ") != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	})
}
