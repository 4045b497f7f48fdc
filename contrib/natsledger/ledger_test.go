package natsledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/natsledger"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/ledgertest"
)

// connect starts a server in this process.
func connect(tb testing.TB) jetstream.JetStream {
	tb.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: tb.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		tb.Fatal("nats-server: not ready after 10s")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	return js
}

func newLedger(tb testing.TB, js jetstream.JetStream) share.Ledger {
	tb.Helper()
	l, err := natsledger.New(tb.Context(), js, natsledger.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestLedger(t *testing.T) {
	ledgertest.Run(t, func(tb testing.TB) share.Ledger { return newLedger(tb, connect(tb)) })
}

// TestExpiry checks that a row has a TTL, and that a version does not repeat after it.
func TestExpiry(t *testing.T) {
	js := connect(t)
	l := newLedger(t, js)
	newLedger(t, js) // the bucket exists
	swap := func(version uint64) {
		t.Helper()
		swaps := []share.Swap{{Name: "a", Version: version, Data: []byte("x"), Keep: 10 * time.Millisecond}}
		if err := l.Swap(t.Context(), swaps); err != nil || !swaps[0].Done {
			t.Fatalf("Swap = %v, %v, want done", swaps[0].Done, err)
		}
	}
	load := func() share.Stored {
		rows := make([]share.Stored, 1)
		if _, err := l.Load(t.Context(), []string{"a"}, rows); err != nil {
			t.Fatal(err)
		}
		return rows[0]
	}
	swap(0)
	first := load().Version
	ends := time.Now().Add(20 * time.Second)
	for load().Version != 0 {
		if time.Now().After(ends) {
			t.Fatal("the row has no TTL: it exists after 20s")
		}
	}
	swap(0)
	if v := load().Version; v <= first {
		t.Errorf("version = %d after %d, want a larger one", v, first)
	}
}

func TestNewRejects(t *testing.T) {
	js := connect(t)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []natsledger.Config{{Bucket: kv.Bucket()}, {Bucket: "a.b"}, {Replicas: 2}} {
		if _, err := natsledger.New(t.Context(), js, c); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("New(%+v) = %v, want ErrInvalid", c, err)
		} else {
			t.Log(err)
		}
	}
	if _, err := natsledger.New(t.Context(), nil, natsledger.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New without a connection = %v, want ErrInvalid", err)
	}
	js.Conn().Close()
	if _, err := natsledger.New(t.Context(), js, natsledger.Config{}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("New with a closed connection = %v, want ErrUnavailable", err)
	}
}
