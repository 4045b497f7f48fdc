// Package lab answers one question with evidence: what does a lock around the stock do?
//
// It sends the same crowd through four designs, over a store that behaves as Redis does or
// over a Redis, stops some buyers in the middle for a while, and counts what was sold.
//
//	r, err := lab.Run(ctx, lab.Config{Design: lab.Naive, Buyers: 200, Stock: 50, Pause: 200 * time.Millisecond})
//	fmt.Println(r.Oversold) // 1 or more
//
// A lock that comes free after a time is no exclusion: whoever pauses for longer than that
// (a collection, a full disk, a moved machine) goes on beside the next holder. The naive
// design sells what is not there then. The fenced design is right because the stock itself
// refuses the older holder, the segmented one because its stock has a guard, and the atomic
// one because nothing can pause in its middle. In each, what makes it right is the step at
// the stock, which would have sufficed without the lock.
package lab
