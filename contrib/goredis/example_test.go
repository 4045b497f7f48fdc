package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/floodweir/weir"
	weirgoredis "github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/redisstore"
)

func ExampleNewStore() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer client.Close()

	store, err := weirgoredis.NewStore(client)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(context.Background(), "user:42", 1)
	fmt.Println(d.OK, d.Remaining, err)
}

func ExampleOpen() {
	conn, err := weirgoredis.Open("redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := redisstore.New(conn, redisstore.Config{Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}

func TestNewStoreWithoutClient(t *testing.T) {
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil)} {
		if _, err := weirgoredis.NewStore(client); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("NewStore(%T(nil)) = %v, want weir.ErrInvalid", client, err)
		}
	}
}
