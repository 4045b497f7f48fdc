package e2e_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/redisledger"
)

func newRedisLedger(tb testing.TB, conn redisstore.Conn) share.Ledger {
	tb.Helper()
	l, err := redisledger.New(conn, "")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// TestRedisLedgerUnavailable checks that a lost connection is an error that callers know.
func TestRedisLedgerUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn := openConn(t, "rueidis", (&url.URL{Scheme: "redis", Host: server.Addr}).String())
	l := newRedisLedger(t, conn)
	server.Stop()
	if _, err := l.Load(t.Context(), []string{"a"}, make([]share.Stored, 1)); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Load without a server = %v, want ErrUnavailable", err)
	}
	if err := l.Swap(t.Context(), []share.Swap{{Name: "a"}}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Swap without a server = %v, want ErrUnavailable", err)
	}
}
