package rlsenv

import (
	"errors"
	"net/url"
	"strings"

	"github.com/floodweir/weir/redisstore"
)

// redis has the values of the REDIS_ variables.
type redis struct {
	url, kind, socket  string
	auth, sentinelAuth string
	tls                bool
	cert, key, ca      string
}

// storeURL returns the URL of the store. A REDIS_URL that is a URL is used as it is.
func (r redis) storeURL() (string, error) {
	switch {
	case r.url == "":
		return "", errors.New("want HOST:PORT of a Redis, got none (WEIR_STORE=memory counts in this process)")
	case strings.HasPrefix(r.url, "/"), r.socket == "unix":
		return "", errors.New("want HOST:PORT and REDIS_SOCKET_TYPE tcp: Unix sockets are not supported")
	}
	made := r.url
	if !strings.Contains(r.url, "://") {
		made = r.compose()
	}
	_, err := redisstore.ParseURL(made)
	return made, err
}

func (r redis) compose() string {
	scheme, hosts, path, params := "redis", r.url, "", url.Values{}
	if r.tls {
		scheme = "rediss"
		for name, value := range map[string]string{"ca": r.ca, "cert": r.cert, "key": r.key} {
			if value != "" {
				params.Set(name, value)
			}
		}
	}
	switch r.kind {
	case "CLUSTER":
		scheme += "+cluster"
	case "SENTINEL":
		scheme += "+sentinel"
		path, hosts, _ = strings.Cut(r.url, ",")
		if path = "/" + url.PathEscape(path); r.sentinelAuth != "" {
			user, password := credentials(r.sentinelAuth)
			params.Set("sentinel_password", password)
			if user != "" {
				params.Set("sentinel_user", user)
			}
		}
	}
	made := scheme + "://"
	if r.auth != "" {
		user, password := credentials(r.auth)
		made += url.PathEscape(user) + ":" + url.PathEscape(password) + "@"
	}
	if made += hosts + path; len(params) > 0 {
		made += "?" + params.Encode()
	}
	return made
}

// credentials returns the user, "" if there is none, and the password of "USER:PASSWORD"
// or "PASSWORD".
func credentials(auth string) (user, password string) {
	if user, password, ok := strings.Cut(auth, ":"); ok {
		return user, password
	}
	return "", auth
}
