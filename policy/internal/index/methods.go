package index

import "strings"

// methods is a set of methods: a bit for each of standard, and the next one for all others.
type methods uint16

// standard has the methods of most requests first.
var standard = [...]string{"GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"}

const (
	get   methods = 1 << iota
	_             // POST
	head          // HEAD
	other methods = 1 << len(standard)
	all           = other<<1 - 1
)

// of returns the method of a request, whose case is not significant.
func of(method string) methods {
	for i, s := range standard {
		if s == method || len(s) <= len(method) && strings.EqualFold(s, method) {
			return 1 << i
		}
	}
	return other
}

// setOf returns the methods of a policy, which are in upper case.
func setOf(list []string) (set methods) {
	if len(list) == 0 {
		return all
	}
	for _, s := range list {
		if set |= of(s); s == "GET" {
			set |= head
		}
	}
	return set
}
