package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func ExampleMustLimiter() {
	lim := memstore.MustLimiter("2/h")
	for range 3 {
		fmt.Println(lim.Allow())
	}
	// Output:
	// true
	// true
	// false
}

func ExampleNew() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	lim, err := weir.New(store, weir.MustLimit("2/24h"), weir.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := lim.Take(context.Background(), "user:42", 1)
		if err != nil {
			fmt.Println(err) // no decision: let through or not, as you choose
			continue
		}
		fmt.Println(d.OK, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// ExampleConfig_full shows that a store that is full of keys that owe has no room for
// another one.
func ExampleConfig_full() {
	for _, full := range []memstore.Full{memstore.Refuse, memstore.Share} {
		store, _ := memstore.New(memstore.Config{MaxKeys: 1, Full: full})
		limit := weir.MustLimit("1/24h")
		for _, key := range []string{"first", "second", "third"} {
			d, err := store.Do(context.Background(), weir.Request{Key: key, Limit: limit, N: 1})
			fmt.Println(key, d.OK, errors.Is(err, weir.ErrFull))
		}
		store.Close()
	}
	// Output:
	// first true false
	// second false true
	// third false true
	// first true false
	// second true false
	// third false false
}

// ExampleConfig_snapshot shows that a daily quota survives a restart.
func ExampleConfig_snapshot() {
	dir, _ := os.MkdirTemp("", "weir")
	defer os.RemoveAll(dir)
	daily := weir.MustLimit("1/24h")
	for range 2 {
		store, err := memstore.New(memstore.Config{Snapshot: filepath.Join(dir, "quotas")})
		if err != nil {
			fmt.Println(err)
			return
		}
		d, _ := store.Do(context.Background(), weir.Request{Key: "user:42", Limit: daily, N: 1})
		fmt.Println(d.OK)
		store.Close()
	}
	// Output:
	// true
	// false
}

func ExampleStore_Stats() {
	store, _ := memstore.New(memstore.Config{MaxKeys: 100})
	defer store.Close()
	store.Do(context.Background(), weir.Request{Key: "user:42", Limit: weir.MustLimit("1/24h"), N: 1})
	st := store.Stats()
	fmt.Println(st.Keys, "of", st.MaxKeys)
	// Output: 1 of 100
}

func ExampleStore_DoAll() {
	store, _ := memstore.New(memstore.Config{})
	defer store.Close()
	perUser, perSite := weir.MustLimit("2/24h"), weir.MustLimit("3/24h")
	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		ds := make([]weir.Decision, 2)
		ok, _ := store.DoAll(context.Background(), []weir.Request{
			{Key: user, Limit: perUser, N: 1},
			{Key: "site", Limit: perSite, N: 1},
		}, ds)
		fmt.Println(user, ok, ds[0].OK, ds[1].OK)
	}
	// Output:
	// ann true true true
	// ann true true true
	// ann false false true
	// bob true true true
	// bob false true false
}
