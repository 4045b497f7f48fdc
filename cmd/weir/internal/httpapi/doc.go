// Package httpapi answers questions about limits over HTTP: POST /v1/take,
// /v1/peek, /v1/return and /v1/reset, and says with /healthz and /readyz how the
// program is.
//
// A question is a JSON object; the answer to one that could be decided is 200,
// whether it is yes or no:
//
//	$ curl -d '{"key": "user:42", "limit": "10/s burst 20", "n": 1}' http://127.0.0.1:8080/v1/take
//	{"ok":true,"limit":"10/s burst 20","capacity":20,"granted":1,"remaining":19,"retry_after":0,"reset_after":0.1,…}
//
// In the place of "limit" may stand "limits", an array that is decided all or
// nothing, or "policy", the name of a policy of the configuration. The key of a
// policy is an array with one text for each part of its key, or the text itself
// where there is one part, and names the same bucket as at the gateway.
//
// # Units
//
// retry_after, reset_after and delay are numbers of seconds with up to six
// decimals, rounded up. A request that no waiting can make fit has "never": true
// in the place of retry_after. at is the store's clock, RFC 3339.
//
// # Errors
//
// What cannot be decided is a problem document (RFC 9457). A question that is not
// understood gets 400 and says in field, value and expected what is wrong; one
// that is too large 413; one that the store could not decide 503. Nothing is
// charged in the first two cases. In the third the answer may have been lost on
// its way, after the charge.
package httpapi
