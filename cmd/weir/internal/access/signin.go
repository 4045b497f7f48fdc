package access

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// Names of the session cookie. A browser accepts the first only over HTTPS, from this very
// host and for all its paths.
const (
	secureCookie = "__Host-weir-session"
	plainCookie  = "weir-session"
)

const maxSignIn = 8 << 10 // bytes of a request

// Session serves the session of a browser: GET returns the actor, POST exchanges a token
// for a session cookie, DELETE signs out. Wrap needs to treat it as public.
func (a *Access) Session() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			a.signIn(w, r)
		case http.MethodDelete:
			a.signOut(w, r)
		default:
			a.sendSession(w, ActorOf(r.Context()))
		}
	})
}

// sendSession sends the actor; without name and role if there are no credentials.
func (a *Access) sendSession(w http.ResponseWriter, actor Actor) {
	res := struct {
		Name     string `json:"name"`
		Role     Role   `json:"role"`
		Required bool   `json:"required"`
	}{actor.Name, actor.Role, a.c.Token != ""}
	if actor.Role == Public {
		res.Name, res.Role = "", ""
	}
	problem.WriteJSON(w, res)
}

func (a *Access) signIn(w http.ResponseWriter, r *http.Request) {
	if a.c.Token == "" {
		a.sendSession(w, ActorOf(r.Context()))
		return
	}
	encrypted, ok := a.transport(r)
	if !ok {
		problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "scheme", Value: "http", Expected: "https",
			Detail: "sign-in over plain HTTP works only on the machine itself, at 127.0.0.1 or localhost: set --admin-tls-cert and --admin-tls-key, or have a proxy of admin.trusted_proxies report https in X-Forwarded-Proto"})
		return
	}
	body, err := problem.ReadBody(w, r, maxSignIn)
	if err != nil {
		problem.WriteBodyError(w, err)
		return
	}
	var q struct{ Token string }
	if json.Unmarshal(body, &q) != nil || q.Token == "" {
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Field: "token", Value: "nothing", Expected: "a token", Detail: `want {"token": "TOKEN"}`})
		return
	}
	u := a.token.verify(w, r, q.Token)
	if u == nil {
		return
	}
	if old := sessionID(r, encrypted); old != "" {
		a.sessions.stop(old)
	}
	setCookie(w, encrypted, a.sessions.start(u), int(maxAge.Seconds()))
	a.signed(r, u, "sign_in")
	a.sendSession(w, Actor{u.name, u.role, "web"})
}

// signed reports a sign-in or a sign-out; u is nil if there was no session.
func (a *Access) signed(r *http.Request, u *user, action string) {
	if u != nil && a.c.Signed != nil {
		a.c.Signed(r.Context(), u.name, "web", action)
	}
}

func (a *Access) signOut(w http.ResponseWriter, r *http.Request) {
	encrypted, _ := a.transport(r)
	if id := sessionID(r, encrypted); id != "" {
		a.signed(r, a.sessions.stop(id), "sign_out")
	}
	setCookie(w, encrypted, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

func setCookie(w http.ResponseWriter, encrypted bool, id string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(encrypted), Value: id, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: encrypted, SameSite: http.SameSiteStrictMode,
	})
}

func cookieName(encrypted bool) string {
	if encrypted {
		return secureCookie
	}
	return plainCookie
}

// sessionID returns the ID in the cookie of r; "" if there is none, or more than one.
func sessionID(r *http.Request, encrypted bool) string {
	if all := r.CookiesNamed(cookieName(encrypted)); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// transport reports whether a browser's connection is encrypted, as far as the next
// trusted proxy, and whether it may have a session. Without encryption it may on this
// machine alone, without a proxy.
func (a *Access) transport(r *http.Request) (encrypted, ok bool) {
	if r.TLS != nil || a.trusted(r) && a.forwardedProto(r) == "https" {
		return true, true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	forwarded := r.Header["X-Forwarded-For"] != nil || r.Header["X-Forwarded-Proto"] != nil || r.Header["Forwarded"] != nil
	return false, err == nil && peer.Addr().Unmap().IsLoopback() && isLoopback(r.Host) && !forwarded
}

// trusted reports whether the peer is a trusted proxy.
func (a *Access) trusted(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, p := range a.c.Client.Trusted {
		if p.Contains(peer.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// forwardedProto returns the scheme that the peer reports: the last one, because a client
// may have sent those before it.
func (a *Access) forwardedProto(r *http.Request) string {
	last := func(name string) string {
		values := r.Header[name]
		if len(values) == 0 {
			return ""
		}
		list := strings.Split(values[len(values)-1], ",")
		return strings.ToLower(strings.TrimSpace(list[len(list)-1]))
	}
	if !strings.EqualFold(a.c.Client.Header, "Forwarded") {
		return last("X-Forwarded-Proto")
	}
	for pair := range strings.SplitSeq(last("Forwarded"), ";") {
		if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); name == "proto" {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// isLoopback reports whether a Host names this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || problem.IsLocalhost(host)
}
