// Package run puts a flash sale together: an inventory, a ledger, the shop that joins them, the
// limits before it, and the two listeners. Its parts know nothing of each other but what
// package sale says.
//
//	s, err := run.Start(ctx, run.Config{Data: "data"})
//	…
//	fmt.Println(s.ShopURL, s.OfficeURL)
//	defer s.Stop()
package run
