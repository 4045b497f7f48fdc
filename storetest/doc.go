// Package storetest tests that a [weir.Store] keeps its rules.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(tb testing.TB) storetest.Harness {
//			clock := &manualClock{}
//			store, err := mystore.New(mystore.Config{Clock: clock})
//			if err != nil {
//				tb.Fatal(err)
//			}
//			return storetest.Harness{Store: store, SetNow: clock.Set, Close: store.Close}
//		})
//	}
//
// [Run] replays the stories in trace/*.txt and checks the numbered rules of the doc
// comment of weir.Store, under the same numbers. It also sends invalid input, and
// requests from many goroutines at once. [Differential] compares the store with a
// [Model], a slow and simple store, on the same random requests. [DiffAlgo] does so
// with the rules of package internal/algo, without a store.
//
// # Time
//
// The suite never sleeps: it sets the store's clock, in µs since the epoch. A store
// whose clock is in another process needs a way for tests to set it.
//
// # Writing a story
//
// Package internal/story describes the format. Write the expected decisions of a story
// by hand, or let the Model write them with "go test ./storetest -update". Then review
// the diff.
package storetest
