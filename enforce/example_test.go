package enforce_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A call is a request of some protocol, as the policies see it.
type call struct{ user string }

func (c call) Method() string           { return "" }
func (c call) Host() string             { return "" }
func (c call) Path() string             { return "" }
func (c call) Query(string) []string    { return nil }
func (c call) Cookie(string) []string   { return nil }
func (c call) ClientIP() (a netip.Addr) { return a }
func (c call) Header(name string) []string {
	if name == "User" {
		return []string{c.user}
	}
	return nil
}

func Example() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name:   "calls",
		Key:    []policy.KeyPart{{Source: policy.Header, Name: "User"}},
		Limits: []weir.Limit{weir.MustLimit("2/h")},
	})
	if err != nil {
		log.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		log.Fatal(err)
	}
	e, err := enforce.New(store, set, enforce.Config{})
	if err != nil {
		log.Fatal(err)
	}

	var pass enforce.Admission
	for range 3 {
		if !e.Enter(context.Background(), call{user: "ada"}, &pass).Passes() {
			fmt.Println(pass.Outcome(), "by", pass.DeniedBy().Name())
			continue
		}
		fmt.Println(pass.Outcome(), "with", pass.Decision().Remaining, "left")
		pass.Exit(enforce.Result{Status: 200})
	}
	// Output:
	// admitted with 1 left
	// admitted with 0 left
	// denied by calls
}
