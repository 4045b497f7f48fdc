// Package expr compiles conditions, costs and parts of keys from CEL, the Common
// Expression Language (https://cel.dev).
//
//	where, err := expr.Condition(`request.path.startsWith("/api/") && request.method != "GET"`)
//	if err != nil {
//		return err // every fault, with its line and column in the text
//	}
//	p, err := policy.New(policy.Config{Match: policy.Match{Where: where}, …})
//
// An expression reads
//
//	request.method    text, as sent
//	request.host      text, in lower case without port
//	request.path      text: one variant of the path, as package policy derives it: in
//	                  lower case, without a slash at its end except for "/"
//	request.headers   values by name, without case: request.headers["x-plan"]
//	request.query     values by name
//	request.cookies   values by name
//	claims            claims of an unverified JSON Web Token, by name
//	client.ip         text, such as 203.0.113.7; "" for a client without an address
//
// A missing header, parameter or cookie is "". The expression "x-plan" in
// request.headers reports whether it exists. Beside the standard functions there are
// CEL's extensions for strings (split, lowerAscii, replace, …) and for addresses:
// cidr("10.0.0.0/8").containsIP(client.ip). Values that an expression does not mention
// are not read.
//
// An expression of [ResponseCost] also reads the response.
//
// # Guarantees
//
// The cost of an expression is bounded for every request. Texts have at most [MaxText]
// bytes, and values of a request at most [MaxValue]. An expression that could cost more
// than [MaxCost] is refused when it is compiled, and stopped if it does at run time.
// Patterns of matches are compiled once, and never come from a request.
//
// An expression of the wrong type is refused. So is one with the same result for every
// request, which is a mistake or needs no expression.
//
// # Errors
//
// A text that cannot be compiled returns [Errors], which wrap weir.ErrInvalid.
// Evaluation for a request can fail: a value is too long, a header occurs twice with
// different values, a divisor is zero, or a text is not a number. The error names the
// expression and the reason.
//
// # Concurrency
//
// A compiled expression is immutable and safe for concurrent use.
package expr
