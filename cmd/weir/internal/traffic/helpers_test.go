package traffic_test

import (
	"net/netip"
	"testing"

	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A request has only a client address.
type request struct {
	policy.Attributes
	ip string
}

func (r request) Method() string         { return "GET" }
func (r request) Host() string           { return "example.com" }
func (r request) Path() string           { return "/" }
func (r request) ClientIP() netip.Addr   { return netip.MustParseAddr(r.ip) }
func (r request) Header(string) []string { return nil }

func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
