// Package expr makes conditions, costs and parts of keys out of text in CEL, the
// Common Expression Language (https://cel.dev).
//
//	where, err := expr.Condition(`request.path.startsWith("/api/") && request.method != "GET"`)
//	if err != nil {
//		return err // every fault, with its line and column in the text
//	}
//	p, err := policy.New(policy.Config{Match: policy.Match{Where: where}, …})
//
// An expression sees
//
//	request.method    text, as sent
//	request.host      text, in lower case without port
//	request.path      text: one reading of the path, as package policy makes it: in
//	                  lower case, without a slash at its end but for "/"
//	request.headers   values by name, without case: request.headers["x-plan"]
//	request.query     values by name
//	request.cookies   values by name
//	client.ip         text, such as 203.0.113.7; "" for a client without an address
//
// A header, parameter or cookie that is missing is "", and "x-plan" in
// request.headers says whether it is there. Beside the standard functions there are
// CEL's extensions for strings (split, lowerAscii, replace, …) and for addresses:
// cidr("10.0.0.0/8").containsIP(client.ip). What an expression does not mention is
// not read.
//
// # Guarantees
//
// No request makes an expression slow. Texts are at most [MaxText] bytes, values of
// a request at most [MaxValue]; an expression that could cost more than [MaxCost]
// for such a request is refused when it is compiled, and stopped if it does
// nevertheless. Patterns of matches are compiled once, and none comes from a request.
//
// An expression of the wrong type is refused, and so is one that is the same for
// every request: it would be a mistake, or better said without an expression.
//
// # Errors
//
// A text that cannot be compiled gives [Errors], which wrap weir.ErrInvalid. An
// expression that cannot be evaluated for a request gives an error that names both
// it and the reason: a value that is too long, a header that stands there twice with
// different values (whoever reads the request next may take either), a division by
// zero, a text that is no number.
//
// # Concurrency
//
// What is compiled is immutable and safe for concurrent use.
package expr
