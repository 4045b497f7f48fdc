package web_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/identity"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer is an OpenID provider whose tokens a test can change.
type issuer struct {
	*httptest.Server
	key       *rsa.PrivateKey
	challenge string // of the code in progress
	nonce     string
	change    func(c map[string]any)
	refuse    bool
}

func newIssuer(t *testing.T, now time.Time) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	reply := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if i.refuse || r.FormValue("code") != "code" || base64.RawURLEncoding.EncodeToString(sum[:]) != i.challenge {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		claims := map[string]any{"iss": i.URL, "aud": "client", "sub": "ann", "nonce": i.nonce, "exp": now.Add(time.Minute).Unix(), "iat": now.Unix()}
		if i.change != nil {
			i.change(claims)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		id, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Error(err)
		}
		reply(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": id})
	})
	return i
}

// loginOf begins a login and returns its cookie, and the query with which the provider returns.
func (i *issuer) loginOf(t *testing.T, s *shop, back string) (cookie string, query url.Values) {
	t.Helper()
	w := s.ask("GET", "/login?return="+url.QueryEscape(back), "", "")
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther || !strings.HasPrefix(to.String(), i.URL+"/authorize?") {
		t.Fatalf("login: %d %v %s", w.Code, w.Header(), w.Body)
	}
	q := to.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || q.Get("scope") != "openid" || q.Get("client_id") != "client" {
		t.Errorf("login goes to %s", to)
	}
	i.challenge, i.nonce = q.Get("code_challenge"), q.Get("nonce")
	c := w.Result().Cookies()[0]
	if c.Name != "fs_login" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/login" {
		t.Errorf("the login's cookie is %v", c)
	}
	return c.Name + "=" + c.Value, url.Values{"code": {"code"}, "state": {q.Get("state")}}
}

func openIssuer(t *testing.T) (*issuer, *shop) {
	t.Helper()
	i := newIssuer(t, webtest.Start())
	o, err := identity.NewOIDC(identity.OIDCConfig{
		Issuer: i.URL, ClientID: "client", ClientSecret: "secret", RedirectURL: "http://localhost/login/callback", Clock: webtest.Start,
	})
	if err != nil {
		t.Fatal(err)
	}
	return i, open(t, &desk{}, layers.Config{Policies: wide()}, func(c *web.ShopConfig) { c.OIDC = o })
}

// back returns from the provider.
func (s *shop) back(cookie string, query url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/login/callback?"+query.Encode(), nil)
	r.Header.Set("Cookie", cookie)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// sessionOf returns the session that a response sets; its user is empty if there is none.
func (s *shop) sessionOf(w *httptest.ResponseRecorder) pass.Session {
	for _, c := range w.Result().Cookies() {
		if c.Name == "fs_session" {
			session, _ := s.keys.OpenSession(c.Value, s.now)
			return session
		}
	}
	return pass.Session{}
}

func TestOIDC(t *testing.T) {
	i, s := openIssuer(t)
	cookie, query := i.loginOf(t, s, "/sales/a1")
	w := s.back(cookie, query)
	ann := s.sessionOf(w)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sales/a1" || len(ann.User) != 64 || ann.Proof != "oidc" {
		t.Fatalf("login: %d %v %s, session %+v", w.Code, w.Header(), w.Body, ann)
	}
	if rest := ann.Expires.Sub(s.now); rest != 12*time.Hour {
		t.Errorf("the session lasts %v", rest)
	}
	for name, f := range map[string]func(cookie *string, query url.Values){
		"no cookie":        func(cookie *string, _ url.Values) { *cookie = "x=y" },
		"a forged cookie":  func(cookie *string, _ url.Values) { *cookie = strings.Replace(*cookie, "=A", "=B", 1) },
		"another state":    func(_ *string, q url.Values) { q.Set("state", "x") },
		"no state":         func(_ *string, q url.Values) { q.Del("state") },
		"no code":          func(_ *string, q url.Values) { q.Del("code") },
		"an error":         func(_ *string, q url.Values) { q.Set("error", "access_denied") },
		"another issuer":   func(_ *string, q url.Values) { q.Set("iss", "https://evil.example") },
		"a refused code":   func(_ *string, q url.Values) { q.Set("code", "other") },
		"another browser":  func(cookie *string, _ url.Values) { *cookie, _ = i.loginOf(t, s, "/") },
		"claims: nonce":    func(*string, url.Values) { i.change = func(c map[string]any) { c["nonce"] = "x" } },
		"claims: no nonce": func(*string, url.Values) { i.change = func(c map[string]any) { delete(c, "nonce") } },
		"claims: audience": func(*string, url.Values) { i.change = func(c map[string]any) { c["aud"] = "other" } },
		"claims: issuer":   func(*string, url.Values) { i.change = func(c map[string]any) { c["iss"] = "https://evil.example" } },
		"claims: expired": func(*string, url.Values) {
			i.change = func(c map[string]any) { c["exp"] = webtest.Start().Unix() - 60 }
		},
		"claims: no subject":  func(*string, url.Values) { i.change = func(c map[string]any) { delete(c, "sub") } },
		"another key's token": func(*string, url.Values) { i.key, _ = rsa.GenerateKey(rand.Reader, 2048) },
	} {
		key := i.key
		cookie, query := i.loginOf(t, s, "/")
		f(&cookie, query)
		if w := s.back(cookie, query); w.Code != http.StatusUnauthorized || s.sessionOf(w).User != "" {
			t.Errorf("%s: %d %s, session %+v; want 401", name, w.Code, w.Body, s.sessionOf(w))
		}
		i.change, i.key = nil, key
	}
	for _, back := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "", strings.Repeat("/", 200), "/a\nb"} {
		cookie, query := i.loginOf(t, s, back)
		if w := s.back(cookie, query); w.Header().Get("Location") != "/" {
			t.Errorf("after a login with return %q: %s, want /", back, w.Header().Get("Location"))
		}
	}
	cookie, query = i.loginOf(t, s, "/")
	s.now = s.now.Add(11 * time.Minute)
	if w := s.back(cookie, query); w.Code != http.StatusUnauthorized {
		t.Errorf("a login of 11 minutes: %d, want 401", w.Code)
	}
	plain := open(t, &desk{}, layers.Config{})
	for _, path := range []string{"/login", "/login/callback"} {
		if w := plain.ask("GET", path, "", ""); w.Code != http.StatusNotFound {
			t.Errorf("%s without a provider: %d, want 404", path, w.Code)
		}
	}
}

// buyers is an implementation of a shop.
type buyers func(r *http.Request) (identity.Buyer, error)

func (f buyers) Buyer(r *http.Request) (identity.Buyer, error) { return f(r) }

func TestSessionsOfBuyers(t *testing.T) {
	var who identity.Buyer
	var fails error
	s := open(t, &desk{}, layers.Config{Policies: wide()}, func(c *web.ShopConfig) {
		c.Buyers = buyers(func(*http.Request) (identity.Buyer, error) { return who, fails })
		c.SignIn = "https://shop.example/login"
	})
	session := func(cookie string) (*httptest.ResponseRecorder, pass.Session) {
		r := s.request("POST", "/api/session", "", "")
		r.Header.Set("Cookie", cookie)
		r.Header.Set("X-User", "admin")
		r.Header.Set("Flashsale-User", "admin")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w, s.sessionOf(w)
	}
	fails = identity.ErrNone
	w, guest := session("")
	if w.Code != 201 || len(guest.User) != 32 || guest.Proof != "" || !strings.Contains(w.Body.String(), `"sign_in":"https://shop.example/login","max_units":1}`) {
		t.Fatalf("without credentials: %d %s %+v, want a guest", w.Code, w.Body, guest)
	}
	cookie := "fs_session=" + s.keys.Session(guest)
	fails, who = nil, identity.Buyer{ID: "ann", Proof: identity.ByMyShop}
	w, ann := session(cookie)
	if w.Code != 201 || strings.Contains(w.Body.String(), "max_units") || ann.User != "ann" || ann.Proof != "shop" || ann.Expires.Sub(s.now) != 12*time.Hour {
		t.Errorf("with an identity: %d %+v, want ann instead of the guest", w.Code, ann)
	}
	cookie = "fs_session=" + s.keys.Session(ann)
	if w, again := session(cookie); w.Code != 200 || again.User != "" {
		t.Errorf("again: %d, cookie %+v, want the same session", w.Code, again)
	}
	who.ID = "bob"
	if w, bob := session(cookie); w.Code != 201 || bob.User != "bob" {
		t.Errorf("another buyer: %d %+v, want bob", w.Code, bob)
	}
	// Without credentials the session of a member goes on, and is not prolonged.
	fails = identity.ErrNone
	s.now = s.now.Add(11 * time.Hour)
	if w, rest := session(cookie); w.Code != 200 || rest.User != "" {
		t.Errorf("later without credentials: %d, cookie %+v, want the session unchanged", w.Code, rest)
	}
	for _, c := range []struct {
		err    error
		who    identity.Buyer
		status int
	}{
		{fmt.Errorf("%w: expired", identity.ErrInvalid), who, 401},
		{errors.New("database is away"), who, 503},
		{nil, identity.Buyer{}, 503},
		{nil, identity.Buyer{ID: "ann"}, 503},
		{nil, identity.Buyer{ID: "ann", Guest: true, Proof: identity.ByJWT}, 503},
		{nil, identity.Buyer{ID: strings.Repeat("x", 129), Proof: identity.ByJWT}, 503},
		{nil, identity.Buyer{ID: "a\nb", Proof: identity.ByJWT}, 503},
	} {
		fails, who = c.err, c.who
		if w, got := session(""); w.Code != c.status || got.User != "" {
			t.Errorf("%v, %+v: %d %s, want %d", c.err, c.who, w.Code, w.Body, c.status)
		}
	}
	r := s.request("POST", "/api/logout", "ann", "")
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 204 || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d %v", w.Code, w.Header())
	}
}

// TestGuests checks what guests can have, where buyers can have an identity and elsewhere.
func TestGuests(t *testing.T) {
	v := webtest.View()
	v.Sale.PerUser = 2
	status := sale.QueueStatus{View: v, State: sale.Waiting}
	d := &desk{
		view: func(string) (sale.View, error) { return v, nil },
		join: func(string, string, string) (sale.QueueStatus, error) { return status, nil },
		buy:  func(string, string, string, string) (sale.BuyResult, error) { return sale.BuyResult{}, nil },
	}
	members := open(t, d, layers.Config{Policies: wide()}, func(c *web.ShopConfig) {
		c.Buyers = buyers(func(*http.Request) (identity.Buyer, error) { return identity.Buyer{}, identity.ErrNone })
	})
	anyone := open(t, d, layers.Config{Policies: wide()})
	ask := func(s *shop, path, proof string) string {
		body := ""
		if strings.HasSuffix(path, "orders") {
			body = fmt.Sprintf(`{"token":%q}`, s.token("u", "a1"))
		}
		r := s.request("POST", "/api/sales/a1/"+path, "", body)
		r.Header.Set("Cookie", "fs_session="+s.keys.Session(pass.Session{User: "u", Expires: s.now.Add(time.Hour), Proof: proof}))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return webtest.Summary(w)
	}
	held := []sale.Receipt{{Receipt: "r", Sale: v.Sale}}
	for _, c := range []struct {
		name        string
		only        bool
		held        []sale.Receipt
		state       sale.TicketState
		s           *shop
		proof       string
		ticket, buy string
	}{
		{"guest", false, nil, sale.Waiting, members, "", "200", "202"},
		{"guest with a unit and a new ticket", false, held, sale.Admitted, members, "", "409 stock per_user", "409 stock per_user"},
		{"guest who repeats the purchase", false, held, sale.Spent, members, "", "200", "202"},
		{"member with a unit", false, held, sale.Admitted, members, "jwt", "200", "202"},
		{"guest with a unit, no identities", false, held, sale.Admitted, anyone, "", "200", "202"},
		{"guest, members only", true, nil, sale.Waiting, members, "", "401  sign_in", "401  sign_in"},
		{"guest, members only, no identities", true, nil, sale.Waiting, anyone, "", "401  sign_in", "401  sign_in"},
		{"member, members only", true, nil, sale.Waiting, members, "oidc", "200", "202"},
	} {
		v.Sale.MembersOnly, status.Reserved, status.State = c.only, c.held, c.state
		if got := ask(c.s, "ticket", c.proof); got != c.ticket {
			t.Errorf("%s: ticket %q, want %q", c.name, got, c.ticket)
		}
		if got := ask(c.s, "orders", c.proof); got != c.buy {
			t.Errorf("%s: order %q, want %q", c.name, got, c.buy)
		}
	}
}
