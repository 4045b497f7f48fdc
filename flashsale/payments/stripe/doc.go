// Package stripe is a payments.Payments for Stripe's payment intents.
//
//	p, err := stripe.New(stripe.Config{Key: "sk_live_…", Secrets: secrets, Page: "https://shop.example/pay"})
//
// A payment intent has no page of its own. The shop serves Page, with Stripe's payment element,
// and gets the intent in the fragment, which no server sees:
// #payment_intent=pi_…&client_secret=…&return_url=….
//
// The package uses net/http. Stripe's own library has every call of its API, and compiling it
// takes longer than the whole flash sale; five calls and a signature need little of it.
//
// # Webhooks
//
// The endpoint at Stripe is /api/payments/notify/NAME of the flash sale, with the events
// payment_intent.* and refund.*. Events of payments that the flash sale has not opened are
// ignored, so other systems can share the account. A refund of a whole payment in Stripe's
// dashboard cancels its order, as one in the office does.
//
// # Idempotency
//
// Stripe replays the response of an Idempotency-Key, also an error 500. After a 500, Create uses
// a second key: the first intent was given to no buyer, so it is never paid. Refund looks for its refund by
// metadata before it sends one, so that money moves once.
package stripe
