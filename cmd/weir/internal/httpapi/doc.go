// Package httpapi serves the HTTP API: one path per verb of package weir, such as
// POST /v1/take, and POST /v1/batch for several requests. It also serves /healthz and
// /readyz, and /openapi.json with the description of the API.
//
// A request is a JSON object. The status of a decision is 200, admitted or denied:
//
//	$ curl -d '{"key": "user:42", "limit": "10/s burst 20", "n": 1}' http://127.0.0.1:8080/v1/take
//	{"ok":true,"limit":"10/s burst 20","capacity":20,"granted":1,"remaining":19,"retry_after":0,"reset_after":0.1,…}
//
// Instead of "limit", a request may have "limits", an array that is decided all or
// nothing, or "policy", the name of a configured policy. The key of a policy is an array
// with one string per part of its key, constants excepted; a key with one part may be the
// string itself. It names the same bucket as at the gateway. A claim or an expression is
// represented by its value.
//
// # Units
//
// retry_after, reset_after, delay and ttl are numbers of seconds with up to six decimals.
// Responses are rounded up. A request that can never be admitted has "never": true instead
// of retry_after. at is the time of the store's clock, in RFC 3339.
//
// # Guarantees
//
// The requests of a batch are decided at one instant, all or nothing. A request with an
// Idempotency-Key is charged once in 24 hours, by whichever process receives it: the store
// records the key in the step that charges. In a Redis Cluster that takes several steps.
// A process that dies between them may leave the key without the charge, or the charge
// without the key.
//
// # Errors
//
// An error is a problem document (RFC 9457). The status is
//
//   - 400 for an invalid request, with field, value and expected;
//   - 409 for a commit or a cancel without reservation;
//   - 413 for a body that is too large;
//   - 422 for an idempotency key of another request;
//   - 503 if the store made no decision.
//
// Only a request with status 503 may have been charged: its response may have been lost
// after the charge.
package httpapi
