package redisconn

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/redisstore"
)

// A link is a connection with the passwords and certificates of one moment.
type link struct {
	store weir.Store
	conn  redisstore.Conn

	// check reports why the server or its account cannot keep limits.
	check func(context.Context) (redisstore.ServerInfo, error)

	close func()
}

// dial connects to an address. It does not check the server. Names of keys begin with a prefix, and a
// round trip takes at most timeout.
func dial(ctx context.Context, a redisstore.Address, prefix string, timeout time.Duration) (*link, error) {
	options := rueidis.Options(a)
	options.ConnWriteTimeout = max(options.ConnWriteTimeout, timeout+time.Second)
	conn, err := rueidis.OpenOptions(options)
	if err != nil {
		return nil, diagnose(ctx, explain(err, a), a)
	}
	store, err := redisstore.New(conn, redisstore.Config{Prefix: prefix, Timeout: timeout})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &link{
		store: store, conn: conn,
		check: func(ctx context.Context) (redisstore.ServerInfo, error) { return inspect(ctx, store, conn, a) },
		close: func() {
			store.Close()
			conn.Close()
		},
	}, nil
}

// Dial connects to the Redis at url once, for a command. The returned function closes the
// connection. An error wraps weir.ErrInvalid for a bad URL, and weir.ErrUnavailable
// otherwise.
func Dial(ctx context.Context, url string) (weir.Store, redisstore.Conn, func(), error) {
	a, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := dial(ctx, a, "", redisstore.DefaultTimeout)
	if err != nil {
		return nil, nil, nil, err
	}
	return l.store, l.conn, l.close, nil
}

// Files returns the files that a URL names: those that Reload reads.
func Files(rawURL string) (names []string) {
	_, query, _ := strings.Cut(rawURL, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	for _, name := range []string{"password_file", "sentinel_password_file", "ca", "cert", "key"} {
		names = append(names, params[name]...)
	}
	return names
}

// sameSecrets reports whether the files that two addresses of one URL name have the same
// content.
func sameSecrets(a, b redisstore.Address) bool {
	if a.Password != b.Password || a.SentinelPassword != b.SentinelPassword || (a.TLS == nil) != (b.TLS == nil) {
		return false
	}
	if a.TLS == nil {
		return true
	}
	if (a.TLS.RootCAs == nil) != (b.TLS.RootCAs == nil) || a.TLS.RootCAs != nil && !a.TLS.RootCAs.Equal(b.TLS.RootCAs) {
		return false
	}
	if len(a.TLS.Certificates) != len(b.TLS.Certificates) {
		return false
	}
	for i := range a.TLS.Certificates {
		if !slices.EqualFunc(a.TLS.Certificates[i].Certificate, b.TLS.Certificates[i].Certificate, slices.Equal[[]byte]) {
			return false
		}
	}
	return true
}
