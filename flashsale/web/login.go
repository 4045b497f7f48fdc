package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/identity"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

const (
	loginPath   = "/login"
	loginCookie = "fs_login"
	loginFor    = 10 * time.Minute
)

// login sends the browser to the OpenID provider.
func (c visitor) login(w http.ResponseWriter) {
	if c.config.OIDC == nil {
		c.notFound(w)
		return
	}
	to, l, err := c.config.OIDC.Begin(c.r.Context(), returnPath(c.r.URL.Query().Get("return")))
	if err != nil {
		c.config.Log.Error("login unavailable", "error", err)
		layers.Refusal{Reason: layers.Unavailable, Detail: "the login is unavailable", RetryAfter: 5 * time.Second}.Write(w)
		return
	}
	text := c.config.Keys.Login(pass.Login{State: l.State, Nonce: l.Nonce, Verifier: l.Verifier, Return: l.Return, Expires: c.now.Add(loginFor)})
	c.setCookie(w, loginCookie, loginPath, text, loginFor)
	redirect(w, to)
}

// loggedIn opens the session of a buyer who returns from the OpenID provider.
func (c visitor) loggedIn(w http.ResponseWriter) {
	if c.config.OIDC == nil {
		c.notFound(w)
		return
	}
	l, err := c.config.Keys.OpenLogin(wire.Cookie(c.r.Header, loginCookie), c.now)
	if err != nil {
		layers.Refusal{Reason: layers.NoSession, Detail: "the login is over: begin again"}.Write(w)
		return
	}
	c.setCookie(w, loginCookie, loginPath, "", 0) // a login can be finished once
	buyer, err := c.config.OIDC.Finish(c.r.Context(), identity.Login{State: l.State, Nonce: l.Nonce, Verifier: l.Verifier, Return: l.Return}, c.r.URL.Query())
	if errors.Is(err, identity.ErrInvalid) {
		c.config.Log.Warn("login refused", "error", err)
		layers.Refusal{Reason: layers.NoSession, Detail: "the login was not accepted"}.Write(w)
		return
	}
	if err != nil {
		c.config.Log.Error("login unavailable", "error", err)
		layers.Refusal{Reason: layers.Unavailable, Detail: "the login is unavailable", RetryAfter: 5 * time.Second}.Write(w)
		return
	}
	c.user, c.proof = buyer.ID, buyer.Proof
	c.setSession(w, c.lifetime())
	redirect(w, l.Return)
}

// redirect sends the browser elsewhere. The response names a user, so it is not stored.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// returnPath returns a path of this site, or / if text is anything else.
func returnPath(text string) string {
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || len(text) > pass.MaxField ||
		strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return "/"
	}
	return text
}

// hasMembers reports whether buyers can have an identity.
func (c visitor) hasMembers() bool { return c.config.Buyers != nil || c.config.OIDC != nil }

// service returns the service for the user. Where buyers can have an identity, a guest may hold
// one unit.
func (c visitor) service() sale.BuyerService {
	if c.proof == identity.None && c.hasMembers() {
		return c.shop.guests
	}
	return c.config.Service
}

// mayBuy reports whether the user may have a ticket of this sale, and refuses if not.
func (c visitor) mayBuy(w http.ResponseWriter) bool {
	if c.proof != identity.None {
		return true
	}
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return false
	}
	if v.Sale.MembersOnly {
		wire.RefuseReason(w, sale.SignInRequired)
		return false
	}
	c.fewer = c.hasMembers() && v.Sale.PerUser > 1
	return true
}

// refused answers with a refusal of the service.
func (c visitor) refused(w http.ResponseWriter, layer sale.Layer, reason sale.Reason, left int64, retryAfter time.Duration) {
	detail := ""
	switch {
	case reason == sale.PerUserLimit && c.fewer:
		detail = "a guest may hold one unit: sign in for more"
	case reason == sale.FewLeft:
		detail = fmt.Sprintf("fewer units are free than wanted: %d left", left)
	}
	layers.Refusal{Layer: layer, Reason: reason, Detail: detail, Left: left, RetryAfter: retryAfter}.Write(w)
}
