package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func limiter(limit string) *weir.Limiter {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	l, err := weir.New(store, weir.MustLimit(limit), weir.Config{})
	if err != nil {
		panic(err)
	}
	return l
}

func Example() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	lim, err := weir.New(store, weir.MustLimit("10/h burst 2"), weir.Config{})
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := lim.Take(context.Background(), "user:42", 1)
		if err != nil {
			panic(err) // no decision was made
		}
		fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 6m0s
}

func ExampleParseLimit() {
	for _, text := range []string{"10/s burst 20", "100000/month calendar Asia/Shanghai", "10/s bust 20"} {
		limit, err := weir.ParseLimit(text)
		fmt.Println(limit, err)
	}
	// Output:
	// 10/s burst 20 <nil>
	// 100000/month fixed_window calendar Asia/Shanghai <nil>
	//  weir: limit "10/s bust 20": invalid: want burst, an algorithm or one of its options, got "bust"
}

func ExampleNewLimit() {
	limit, err := weir.NewLimit(weir.SlidingWindow{Count: 100, Period: time.Minute, Segments: 6, Weighted: true})
	fmt.Println(limit, err)
	// Output: 100/m sliding_window segments 6 weighted <nil>
}

func ExampleLimiter_TakeUpTo() {
	lim := limiter("10/h")
	d, _ := lim.TakeUpTo(context.Background(), "batch", 25)
	fmt.Println(d.Granted)
	// Output: 10
}

func ExampleLimiter_Peek() {
	lim := limiter("10/h")
	d, _ := lim.Peek(context.Background(), "user:42", 11)
	fmt.Println(d.OK, d.RetryAfter == weir.Never, d.Remaining)
	// Output: false true 10
}

func ExampleLimiter_Wait() {
	lim := limiter("50/s burst 1")
	begin := time.Now()
	for range 3 {
		if d, err := lim.WaitN(context.Background(), "outgoing", 1, time.Second); err != nil || !d.OK {
			fmt.Println("gave up")
		}
	}
	fmt.Println(time.Since(begin) >= 40*time.Millisecond)
	// Output: true
}

func ExampleLimiter_Reserve() {
	ctx := context.Background()
	lim := limiter("1000/day fixed_window")
	r, d, _ := lim.Reserve(ctx, "tenant:7", "request-123", 800, time.Minute)
	fmt.Println(d.OK, d.Remaining)
	d, _ = r.Commit(ctx, 150) // it cost less than was reserved
	fmt.Println(d.Remaining)
	// Output:
	// true 200
	// 850
}

func ExampleLimiter_Charge() {
	ctx := context.Background()
	lim := limiter("100/h")
	lim.Charge(ctx, "tenant:7", 150) // the cost was known only afterwards
	d, _ := lim.Take(ctx, "tenant:7", 1)
	fmt.Println(d.OK, d.RetryAfter.Round(time.Minute))
	// Output: false 31m0s
}

func ExampleLimiter_SetLimit() {
	ctx := context.Background()
	lim := limiter("100/h")
	lim.Take(ctx, "user:42", 50)
	lim.SetLimit(weir.MustLimit("200/h"), weir.CarryProportional)
	d, _ := lim.Peek(ctx, "user:42", 1)
	fmt.Println(d.Remaining)
	// Output: 100
}

func ExampleTakeAll() {
	ctx := context.Background()
	store, _ := memstore.New(memstore.Config{})
	defer store.Close()
	perUser, site := weir.MustLimit("5/h"), weir.MustLimit("3/h")
	for range 4 {
		d, _ := weir.TakeAll(ctx, store,
			weir.Request{Key: "user:42", Limit: perUser, N: 1},
			weir.Request{Key: "site", Limit: site, N: 1},
		)
		fmt.Println(d.OK, d.Limit)
	}
	d, _ := store.Do(ctx, weir.Request{Verb: weir.Peek, Key: "user:42", Limit: perUser, N: 1})
	fmt.Println("user has", d.Remaining) // the denied request cost it nothing
	// Output:
	// true 3/h burst 3
	// true 3/h burst 3
	// true 3/h burst 3
	// false 3/h burst 3
	// user has 2
}
