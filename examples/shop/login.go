package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// A login identifies customers to the flash sale by a token (JWT, HS256) in a cookie.
type login struct {
	key       []byte
	flashsale string // its URL
}

func (login) page(w http.ResponseWriter, _ *http.Request) {
	writePage(w, `<h1>Shop</h1><form method="post" action="/login"><label>Name <input name="name" required maxlength="60"></label> <button>Log in, and go to the flash sale</button></form>`)
}

// writePage writes a page with this HTML.
func writePage(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><title>Shop</title>`, body)
}

// open logs a customer in. A real shop checks a password.
func (l login) open(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("name")
	if name == "" || len(name) > 60 || len(l.key) == 0 {
		http.Error(w, "want a name of 1 to 60 bytes, and -token-key", http.StatusBadRequest)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "shop_token", Value: l.token(name, time.Now()), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil})
	http.Redirect(w, r, l.flashsale, http.StatusSeeOther)
}

// token returns a token that is valid for 10 minutes.
func (l login) token(name string, now time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims, err := json.Marshal(map[string]any{"iss": "shop", "sub": name, "aud": "flashsale", "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix()})
	if err != nil {
		panic(err) // the values are ours
	}
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(claims)
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}
