// Package wire is what the shop and the office of a flash sale have in common on the wire:
// how a request is read, and how it is answered.
//
// # What is accepted
//
// A body is one flat JSON object in UTF-8 of at most 16 KiB: a member that is not known,
// stands twice, is nested, null or of another type is refused by name, and so is anything
// behind the object. Names count letter by letter. A path has one spelling.
//
// # What is answered
//
// A refusal is a problem of package layers, of which a [RequestError] is the one that says what is
// wrong with a request. [Failure] finds the refusal for an error of a desk. What many ask
// for is appended to one another without reflection.
package wire
