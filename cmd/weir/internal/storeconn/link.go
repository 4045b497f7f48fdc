package storeconn

import (
	"context"
	"crypto/sha256"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/postgres"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/pgstore"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/redisledger"
)

// The prefixes of the names of keys of the rest of regions.
const (
	restInRedis    = redisstore.DefaultPrefix + ":1:rest"
	restInPostgres = pgstore.DefaultPrefix + "-rest"
)

// An address has the parameters of a URL, with the passwords and certificates of one moment.
type address struct {
	redis    redisstore.Address
	postgres *postgres.Address // nil: the URL is of a Redis
	files    [sha256.Size]byte // the hash of the files that the URL names
}

func parse(rawURL string) (a address, err error) {
	a.files = contents(Files(rawURL)) // first, so that a later change is found by the next Reload
	if !setup.Postgres(rawURL) {
		a.redis, err = redisstore.ParseURL(rawURL)
		return a, err
	}
	p, err := postgres.ParseURL(rawURL)
	a.postgres = &p
	return a, err
}

// Files returns the files that a URL names: those that Reload reads.
func Files(rawURL string) (names []string) {
	_, query, _ := strings.Cut(rawURL, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	for _, name := range []string{"password_file", "sentinel_password_file", "ca", "cert", "key", "passfile", "sslrootcert", "sslcert", "sslkey"} {
		names = append(names, params[name]...)
	}
	return names
}

// contents returns the hash of files. One that cannot be read counts as empty.
func contents(names []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range names {
		data, _ := os.ReadFile(name) // ParseURL reports the error
		one := sha256.Sum256(data)
		h.Write(one[:])
	}
	h.Sum(sum[:0])
	return sum
}

// A link is a connection with the passwords and certificates of one moment.
type link struct {
	store  weir.Store
	ledger share.Ledger
	conn   redisstore.Conn // nil in PostgreSQL

	// check reports why the server or its account cannot keep limits.
	check func(context.Context) (serverInfo, error)

	close func()
}

// A serverInfo describes a server.
type serverInfo struct {
	name, version string
	warnings      []string // one sentence each
}

// dial connects to an address. It does not check the server. A round trip takes at most timeout.
func dial(ctx context.Context, a address, rest bool, timeout time.Duration) (*link, error) {
	if a.postgres != nil {
		return dialPostgres(*a.postgres, rest, timeout)
	}
	return dialRedis(ctx, a.redis, rest, timeout)
}

func dialRedis(ctx context.Context, a redisstore.Address, rest bool, timeout time.Duration) (*link, error) {
	options := rueidis.Options(a)
	options.ConnWriteTimeout = max(options.ConnWriteTimeout, timeout+time.Second)
	conn, err := rueidis.OpenOptions(options)
	if err != nil {
		return nil, diagnose(ctx, explain(err, a), a)
	}
	prefix := ""
	if rest {
		prefix = restInRedis
	}
	store, err := redisstore.New(conn, redisstore.Config{Prefix: prefix, Timeout: timeout})
	if err != nil {
		conn.Close()
		return nil, err
	}
	rows, err := redisledger.New(conn, prefix)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &link{
		store: store, ledger: rows, conn: conn,
		check: func(ctx context.Context) (serverInfo, error) {
			info, err := inspect(ctx, store, conn, a)
			return serverInfo{info.Server, info.Version, info.Warnings}, err
		},
		close: func() {
			store.Close()
			conn.Close()
		},
	}, nil
}

func dialPostgres(a postgres.Address, rest bool, timeout time.Duration) (*link, error) {
	c := pgstore.Config{Timeout: timeout}
	if rest {
		c.Prefix = restInPostgres
	}
	db, err := postgres.Open(a, timeout)
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(db, c)
	if err != nil {
		db.Close()
		return nil, err
	}
	rows, err := pgstore.NewLedger(db, c)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &link{
		store: store, ledger: rows,
		check: func(ctx context.Context) (serverInfo, error) {
			version, warnings, err := postgres.Check(ctx, db, a, timeout)
			return serverInfo{"postgresql", version, warnings}, err
		},
		close: func() {
			store.Close()
			db.Close()
		},
	}, nil
}

// Dial connects to the server at url once, for a command. The Conn is nil in PostgreSQL. The
// returned function closes the connection. An error wraps weir.ErrInvalid for a bad URL, and
// weir.ErrUnavailable otherwise.
func Dial(ctx context.Context, url string) (weir.Store, redisstore.Conn, func(), error) {
	a, err := parse(url)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := dial(ctx, a, false, redisstore.DefaultTimeout)
	if err == nil && a.postgres != nil { // it has sent nothing yet
		if _, err = l.check(ctx); err != nil {
			l.close()
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return l.store, l.conn, l.close, nil
}
