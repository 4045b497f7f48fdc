package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

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
	//  weir: limit "10/s bust 20": invalid: want burst, an algorithm or one of its options, got "bust": did you mean burst?
}

func ExampleNewLimit() {
	limit, err := weir.NewLimit(weir.SlidingWindow{Count: 100, Period: time.Minute, Segments: 6, Weighted: true})
	fmt.Println(limit, err)
	// Output: 100/m sliding_window segments 6 weighted <nil>
}

func ExampleLimiter_TakeUpTo() {
	lim := memstore.MustLimiter("10/h")
	d, _ := lim.TakeUpTo(context.Background(), "batch", 25)
	fmt.Println(d.Granted)
	// Output: 10
}

func ExampleLimiter_Peek() {
	lim := memstore.MustLimiter("10/h")
	d, _ := lim.Peek(context.Background(), "user:42", 11)
	fmt.Println(d.OK, d.RetryAfter == weir.Never, d.Remaining)
	// Output: false true 10
}

func ExampleLimiter_Allow() {
	lim := memstore.MustLimiter("10/s burst 20")
	if !lim.Allow() {
		return // drop
	}
	fmt.Println("allowed")
	// Output: allowed
}

func ExampleLimiter_AllowKey() {
	lim := memstore.MustLimiter("1/h")
	for _, user := range []string{"ada", "bob", "ada"} {
		fmt.Println(user, lim.AllowKey(user))
	}
	// Output:
	// ada true
	// bob true
	// ada false
}

func ExampleLimiter_Wait() {
	lim := memstore.MustLimiter("50/s burst 1")
	begin := time.Now()
	for range 3 {
		if err := lim.Wait(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(begin) >= 40*time.Millisecond)
	// Output: true
}

func ExampleLimiter_WaitKey() {
	lim := memstore.MustLimiter("1/h")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(lim.WaitKey(ctx, "user:42"))
	fmt.Println(errors.Is(lim.WaitKey(ctx, "user:42"), weir.ErrDenied)) // no token within the deadline
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_WaitN() {
	lim := memstore.MustLimiter("100/s burst 10")
	d, err := lim.WaitN(context.Background(), "outgoing", 10, time.Second) // 10 tokens, within 1s
	fmt.Println(d.OK, err)
	// Output: true <nil>
}

// ExampleLimitFunc takes the limit of each tenant from a table that changes at run time.
func ExampleLimitFunc() {
	ctx := context.Background()
	plans := map[string]weir.Limit{"acme": weir.MustLimit("100/h")}
	store, _ := memstore.New(memstore.Config{})
	lim, _ := weir.New(store, weir.MustLimit("10/h"), weir.Config{
		LimitFunc: func(_ context.Context, tenant string) (weir.Limit, error) { return plans[tenant], nil },
	})
	d, _ := lim.Take(ctx, "acme", 60)
	fmt.Println(d.Limit, d.Remaining)
	d, _ = lim.Take(ctx, "other", 1) // not in the table: the limit of New
	fmt.Println(d.Limit, d.Remaining)
	plans["acme"] = weir.MustLimit("200/h")
	d, _ = lim.Peek(ctx, "acme", 1) // what was used stays used
	fmt.Println(d.Limit, d.Remaining)
	// Output:
	// 100/h burst 100 40
	// 10/h burst 10 9
	// 200/h burst 200 140
}

func ExampleLimiter_Reserve() {
	ctx := context.Background()
	lim := memstore.MustLimiter("1000/day fixed_window")
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
	lim := memstore.MustLimiter("100/h")
	lim.Charge(ctx, "tenant:7", 150) // the cost was known only afterwards
	d, _ := lim.Take(ctx, "tenant:7", 1)
	fmt.Println(d.OK, d.RetryAfter.Round(time.Minute))
	// Output: false 31m0s
}

func ExampleLimiter_SetLimit() {
	ctx := context.Background()
	lim := memstore.MustLimiter("100/h")
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
