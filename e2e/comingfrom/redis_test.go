package comingfrom_test

import (
	"fmt"
	"log"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/redisstore"
)

// Example_redis has no Output comment, so it is compiled but not run: it needs a Redis.
func Example_redis() {
	conn, err := goredis.Open("redis://127.0.0.1:6379") // or contrib/rueidis, with the same words
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}

func Example_redisCell() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("30/60s burst 16"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "user123", 1) // CL.THROTTLE user123 15 30 60
	fmt.Println(d.OK, d.Capacity(), d.Remaining, d.ResetAfter, err)
	// Output: true 16 15 2s <nil>
}

func Example_nginx() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/s leaky_bucket burst 20 nginx"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	admitted := 0
	for range 30 { // at one instant, with burst=20 nodelay
		if d, err := lim.Take(ctx, "192.0.2.1", 1); err == nil && d.OK {
			admitted++
		}
	}
	fmt.Println(admitted)
	// Output: 21
}

func Example_counter() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/10s fixed_window"), weir.Config{Prefix: "counter"})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "ip:192.0.2.1", 1) // INCR, EXPIRE if it is 1, compare
	fmt.Println(d.OK, d.Remaining, d.ResetAfter, err)
	// Output: true 9 10s <nil>
}

func Example_sortedSet() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("5/60s sliding_log"), weir.Config{Prefix: "reply"})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "user:42", 1) // isActionAllowed("user:42", "reply", 60, 5)
	fmt.Println(d.OK, d.Remaining, err)
	_, err = weir.ParseLimit("1_000_000/10s sliding_log")
	fmt.Println(err)
	// Output:
	// true 4 <nil>
	// weir: limit: invalid: count 1000000: out of range: want 1 to 10000, since every admission is remembered; for more use sliding_window, weighted, or token_bucket
}

func Example_funnel() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("30/60s leaky_bucket burst 14"), weir.Config{Prefix: "reply"})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "user:42", 1) // new Funnel(15, 0.5).watering(1)
	fmt.Println(d.OK, d.Remaining, err)
	// Output: true 14 <nil>
}

func Example_bucketInRedis() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("2/s"), weir.Config{Prefix: "seckill"})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "101", 1) // tryAcquire("seckill:101")
	fmt.Println(d.OK, d.Remaining, d.ResetAfter, err)
	// Output: true 1 500ms <nil>
}
