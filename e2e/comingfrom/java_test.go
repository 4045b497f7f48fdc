package comingfrom_test

import (
	"fmt"
	"log"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func Example_memory() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	// Output:
}

func Example_guava() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/s burst 11"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "reports", 1) // tryAcquire()
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.WaitN(ctx, "reports", 1, 200*time.Millisecond) // tryAcquire(200, MILLISECONDS)
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.WaitN(ctx, "reports", 5, weir.Unlimited) // acquire(5)
	fmt.Println(d.OK, d.Remaining, err)
	// Output:
	// true 10 <nil>
	// true 9 <nil>
	// true 4 <nil>
}

func Example_guavaPaysLater() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("1/s burst 1"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "export", 1) // may it begin?
	if err == nil && d.OK {
		_, err = lim.Charge(ctx, "export", 99) // it costs 100; later calls pay
	}
	d, _ = lim.Peek(ctx, "export", 1)
	fmt.Println(d.OK, d.RetryAfter, err)
	// Output: false 1m40s <nil>
}

func Example_guavaWarmup() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("50/s warmup 30s"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	lim.Take(ctx, "database", 1)
	d, err := lim.Take(ctx, "database", 1)
	fmt.Println(d.OK, d.RetryAfter.Round(time.Millisecond), err) // cold: not 20ms, but three times that
	// Output: false 60ms <nil>
}

func Example_bucket4j() {
	store := still()
	second, hour := weir.MustLimit("10/s burst 20"), weir.MustLimit("1000/h interval")
	both := []weir.Request{{Key: "user:42", Limit: second, N: 15}, {Key: "user:42", Limit: hour, N: 15}}
	d, err := weir.TakeAll(ctx, store, both...)
	fmt.Println(d.OK, d.Remaining, err)
	d, err = weir.TakeAll(ctx, store, both...)
	fmt.Println(d.OK, d.Limit, d.RetryAfter, err) // getNanosToWaitForRefill()
	d, err = store.Do(ctx, weir.Request{Verb: weir.Peek, Key: "user:42", Limit: hour, N: 1})
	fmt.Println(d.Remaining, err) // a denied request costs nothing
	// Output:
	// true 5 <nil>
	// false 10/s burst 20 1s <nil>
	// 985 <nil>
}

func Example_redisson() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("10/s sliding_log"), weir.Config{Prefix: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Take(ctx, "all", 1) // RateType.OVERALL
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.Take(ctx, "instance-7", 1) // RateType.PER_CLIENT: a key for each client
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.WaitN(ctx, "all", 2, 500*time.Millisecond) // tryAcquire(2, 500, MILLISECONDS)
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.Take(ctx, "all", 11) // more than the rate
	fmt.Println(d.OK, d.RetryAfter == weir.Never, err)
	// Output:
	// true 9 <nil>
	// true 9 <nil>
	// true 7 <nil>
	// false true <nil>
}

func Example_resilience4j() {
	store := still()
	lim, err := weir.New(store, weir.MustLimit("50/s fixed_window anchor epoch"), weir.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.WaitN(ctx, "backend", 1, 5*time.Second) // acquirePermission(), timeoutDuration 5s
	fmt.Println(d.OK, d.Remaining, err)
	d, err = lim.Charge(ctx, "backend", d.Remaining) // drainPermissions()
	fmt.Println(d.Remaining, d.ResetAfter, err)
	// Output:
	// true 49 <nil>
	// 0 1s <nil>
}
