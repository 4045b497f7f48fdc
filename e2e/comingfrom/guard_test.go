package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/weirfile"
)

func Example_sentinel() {
	store := still()
	file, err := weirfile.Load("sentinel.yaml")
	if err != nil {
		log.Fatal(err)
	}
	err = guard.Default().Configure(guard.Config{Store: store, Functions: file.Functions, Protections: failsafe.New})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		entry, err := guard.Enter(ctx, "getOrder") // SphU.entry("getOrder")
		if err != nil {
			fmt.Println(err) // BlockException
			continue
		}
		fmt.Println("the order")
		entry.Exit(nil) // with the error of the work, if there is one
	}
	for _, item := range []string{"hot-item", "hot-item", "other"} {
		entry, err := guard.Default().Enter(ctx, "getItem", item) // SphU.entry("getItem", IN, 1, item)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item, entry.Decision().Limit)
		entry.Exit(nil)
	}
	// Output:
	// the order
	// the order
	// rate limit exceeded: getOrder: retry after 1s
	// hot-item 100/s burst 100 interval
	// hot-item 100/s burst 100 interval
	// other 5/s burst 5 interval
}

func Example_hystrix() {
	store := still()
	file, err := weirfile.Load("hystrix.yaml")
	if err != nil {
		log.Fatal(err)
	}
	err = guard.Default().Configure(guard.Config{Store: store, Functions: file.Functions, Protections: failsafe.New})
	if err != nil {
		log.Fatal(err)
	}
	run := func(ctx context.Context, id string) (string, error) {
		return "", errors.New("users: no answer")
	}
	getUser := guard.Func(guard.Default().MustGuard(guard.Resource{Name: "getUser"}), run, guard.FuncOptions[string, string]{
		Fallback: func(ctx context.Context, id string, denied error) (string, error) { // getFallback()
			return "unknown", nil
		},
	})
	failed := 0
	for range 20 {
		if _, err := getUser(ctx, "42"); err != nil {
			failed++
		}
	}
	name, err := getUser(ctx, "42") // the breaker is open
	fmt.Println(failed, name, err)
	// Output: 20 unknown <nil>
}
