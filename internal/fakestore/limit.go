package fakestore

import (
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// PolicyLimit returns a limit as the requests of a policy have it if it is the only one of its
// period and algorithm: with a name for its states.
func PolicyLimit(tb testing.TB, text string) weir.Limit {
	tb.Helper()
	p, err := policy.New(policy.Config{
		Name: "p", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: []weir.Limit{weir.MustLimit(text)},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p.Config().Limits[0]
}
