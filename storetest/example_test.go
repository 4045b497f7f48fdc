package storetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/storetest"
)

// ExampleNewModel shows that a Model is a store like any other, with a clock that stands
// where it is put.
func ExampleNewModel() {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	m := storetest.NewModel(now.UnixMicro())
	r := weir.Request{Key: "user:42", Limit: weir.MustLimit("3/s"), N: 3}
	for range 2 {
		d, err := m.Do(context.Background(), r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.OK, d.Remaining, d.RetryAfter)
		m.SetNow(now.Add(300 * time.Millisecond).UnixMicro())
	}
	// Output:
	// true 0 0s
	// false 0 700ms
}
