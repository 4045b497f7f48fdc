package rueidis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/redis/rueidis"

	"github.com/floodweir/weir"
	weirrueidis "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/redisstore"
)

func ExampleNewStore() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	store, err := weirrueidis.NewStore(client)
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
	conn, err := weirrueidis.Open("redis://127.0.0.1:6379")
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
	if _, err := weirrueidis.NewStore(nil); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("NewStore(nil) = %v, want weir.ErrInvalid", err)
	}
}
