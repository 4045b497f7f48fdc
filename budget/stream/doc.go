// Package stream follows the streams of language models event by event, and ends them early in a
// way that their clients understand. Package httplimit uses it for budgets.
//
// A [Relay] gets the bytes of a response and returns those for the client. After each event, its
// Extend decides whether the stream continues. If not, the Relay returns the rest of the event and
// the last events of a stream that reached its maximum of tokens, or an error. It returns an error
// while a tool call or output in JSON is incomplete: a client would use a part of it.
package stream
