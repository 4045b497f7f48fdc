package comingfrom_test

import (
	"fmt"
	"log"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func Example_rate() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "user:42", 1) // l.Allow()
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.WaitN(ctx, "user:42", 5, weir.Unlimited) // l.WaitN(ctx, 5)
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.Take(ctx, "user:42", 21) // l.AllowN(now, 21)
	fmt.Println(d.OK, d.RetryAfter == weir.Never, err)
	// Output:
	// true 19 <nil>
	// true 14 <nil>
	// false true <nil>
}

func Example_rateReserve() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/s leaky_bucket burst 119 delay 19"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "mail", 20) // the burst: r.Delay() is 0
	fmt.Println(d.OK, d.Delay, err)
	d, err = lim.Take(ctx, "mail", 5) // r := l.ReserveN(now, 5); r.Delay()
	fmt.Println(d.OK, d.Delay, err)
	_, err = lim.ReturnAt(ctx, "mail", d.Granted, d.At) // r.Cancel()
	fmt.Println(err)
	// Output:
	// true 0s <nil>
	// true 500ms <nil>
	// <nil>
}

func Example_uber() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	lim, err := weir.New(store, weir.MustLimit("100/s burst 1"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	begin := time.Now()
	for range 4 {
		if _, err := lim.WaitN(ctx, "crawler", 1, weir.Unlimited); err != nil { // rl.Take()
			log.Fatal(err)
		}
	}
	fmt.Println(time.Since(begin) >= 30*time.Millisecond)
	// Output: true
}

func Example_redisRate() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/s"), weir.Config{Prefix: "rate"})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "user:42", 1) // limiter.Allow(ctx, "user:42", redis_rate.PerSecond(10))
	fmt.Println(d.OK, d.Remaining, d.RetryAfter, err)
	d, err = lim.TakeUpTo(ctx, "user:42", 25) // limiter.AllowAtMost(…, 25)
	fmt.Println(d.Granted, d.Remaining, err)
	d, err = lim.Take(ctx, "user:42", 25) // limiter.AllowN(…, 25)
	fmt.Println(d.OK, d.RetryAfter == weir.Never, err)
	// Output:
	// true 9 0s <nil>
	// 9 0 <nil>
	// false true <nil>
}
