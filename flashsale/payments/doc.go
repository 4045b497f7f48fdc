// Package payments is the interface between the flash sale and a payment provider. A shop
// implements [Payments] in its own module, for its bank or its provider, or supports the HTTP form of
// package httpform in another language.
//
//	order written ──▶ Create ──▶ the buyer pays at Payment.URL
//	                               │
//	   Notify ◀── the provider reports it (delayed, repeated, reordered or never)
//	   Query  ◀── … so the flash sale asks
//	   Close  ◀── the time to pay is over
//	   Refund ◀── money came for an order that it cannot pay
//
// # Units
//
// Amounts are whole numbers in the smallest unit of the currency: 8880 CNY is 88.80 yuan, and
// 500 JPY is 500 yen. Currencies are ISO 4217 codes in upper case.
//
// # Idempotency
//
// Every call can be repeated, also by another process and after a crash. Create with the same
// Receipt and Attempt returns the same payment. Refund with the same key moves money once.
//
// # Errors
//
// [ErrForged], [ErrPaid], [ErrNotFound] and [ErrRefused] are decisions. Any other error means
// that nothing is known: the flash sale asks again later.
//
// # Concurrency
//
// All methods are called concurrently, with a deadline in the context.
package payments
