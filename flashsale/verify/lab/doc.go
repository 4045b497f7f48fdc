// Package lab measures what a lock around the stock does: it sells the same units with four
// designs.
//
// Each run has the same number of concurrent buyers, over a store in this process or over
// Redis. Some buyers pause between reading and writing the stock. The package counts the units
// that were sold.
//
//	r, err := lab.Run(ctx, lab.Config{Design: lab.Naive, Buyers: 200, Stock: 50, Pause: 200 * time.Millisecond})
//	fmt.Println(r.Oversold) // 1 or more
//
// A lock that expires is no mutual exclusion: a holder that pauses longer (a garbage
// collection, a full disk, a migrated machine) continues next to the following holder. Then
// the naive design oversells. The fenced design is correct because the stock refuses the older
// holder. The segmented design is correct because its stock has a guard, the atomic one
// because nothing can run in the middle of its script. In each, the check at the stock makes
// it correct, and would have sufficed without the lock.
package lab
