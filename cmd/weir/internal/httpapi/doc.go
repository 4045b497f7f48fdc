// Package httpapi answers questions about limits over HTTP, at one path for each
// verb of package weir, such as POST /v1/take, and POST /v1/batch for several; it says
// with /healthz and /readyz how the program is, and with /openapi.json what it
// understands.
//
// A question is a JSON object; the answer to one that could be decided is 200,
// whether it is yes or no:
//
//	$ curl -d '{"key": "user:42", "limit": "10/s burst 20", "n": 1}' http://127.0.0.1:8080/v1/take
//	{"ok":true,"limit":"10/s burst 20","capacity":20,"granted":1,"remaining":19,"retry_after":0,"reset_after":0.1,…}
//
// In the place of "limit" may stand "limits", an array that is decided all or
// nothing, or "policy", the name of a policy of the configuration. The key of a
// policy is an array with one text for each part of its key that is no constant, or
// the text itself where there is one part, and names the same bucket as at the
// gateway. For a claim or an expression it is the value that it would have.
//
// # Units
//
// retry_after, reset_after, delay and ttl are numbers of seconds with up to six
// decimals; those of an answer are rounded up. A request that no waiting can make fit
// has "never": true in the place of retry_after. at is the store's clock, RFC 3339.
//
// # Guarantees
//
// The questions of a batch are decided at one instant and charged all or none. A
// question with an Idempotency-Key is charged once in 24 hours, whichever process is
// asked: the key is kept in the store, by the same step that charges. In a Redis
// Cluster, where that takes several steps, a process that dies between them may leave
// the key without the charge or the charge without the key.
//
// # Errors
//
// What cannot be decided is a problem document (RFC 9457). A question that is not
// understood gets 400 and says in field, value and expected what is wrong; one
// that is too large 413; the settlement of what is not reserved 409; a key of another
// question 422; one that the store could not decide 503. Nothing is charged but in the
// last case: there the answer may have been lost on its way, after the charge.
package httpapi
