package memstore

import "github.com/floodweir/weir"

// MustLimiter returns a limiter with a store of its own, for a limit in the grammar of
// [weir.ParseLimit]:
//
//	var lim = memstore.MustLimiter("10/s burst 20")
//
//	if !lim.Allow() {
//		return errTooManyRequests
//	}
//
// It panics on an error in the text. The store has the zero Config and needs no
// closing.
func MustLimiter(limit string) *weir.Limiter {
	store, err := New(Config{})
	if err != nil {
		panic(err)
	}
	l, err := weir.New(store, weir.MustLimit(limit), weir.Config{})
	if err != nil {
		panic(err)
	}
	return l
}
