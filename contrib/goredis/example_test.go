package goredis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/redisstore"
)

func Example() {
	conn, err := goredis.Open("redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := redisstore.New(conn, redisstore.Config{})
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
