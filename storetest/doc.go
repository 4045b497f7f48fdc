// Package storetest is the conformance suite that every [weir.Store] runs.
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
// [Run] tells the store the stories in trace/*.txt, checks the numbered rules of
// the doc comment of weir.Store under the same numbers, feeds it bad input, and
// asks it from many goroutines at once. [Differential] asks it and a [Model], a
// store that is slow and plainly right, the same random questions in lock step.
// [DiffAlgo] does so with the rules of package algo, without a store around them.
//
// # Time
//
// The suite never sleeps: it sets the store's clock, in µs since the epoch. A
// store whose clock is elsewhere needs a way for tests to say the time.
//
// # Writing a story
//
// Package internal/story describes the format. A story's answers are written by
// hand, or by the Model with "go test ./storetest -update" and then read: what
// the Model says is a proposal, the diff is what is reviewed.
package storetest
