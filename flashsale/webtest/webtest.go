// Package webtest is the suite that every way to the shop runs over HTTP: the shop itself,
// and whatever stands in front of it.
//
//	webtest.Contract(t, webtest.Target{Shop: "http://127.0.0.1:8088", Office: …, Name: …, Password: …})
package webtest

import (
	"net/http"
	"testing"
)

// A Target is a running flash sale. Shop and Office are base URLs; Name and Password sign a
// merchant in at the office, where the suite makes the sales that it needs.
type Target struct {
	Shop   string // what is tested: the shop, or what stands in front of it
	Office string

	Name, Password string

	// Client, if not nil, gives the client to use as a browser of its own, with no cookies.
	// The suite follows no redirects.
	Client *http.Client

	// From, if not nil, makes a request come from the i-th client's address, as by a field
	// that the target trusts, so that the suite does not exhaust one address's limit. The
	// suite paces itself at the default limits without it.
	From func(r *http.Request, i int)

	// Default says that the target has the default policies: 20/s burst 40 for each
	// address, 2/s burst 5 for each user, one order at a time. Only then these are tested.
	Default bool
}

// Contract tests what API.md says of the shop: every status with its body and fields, what
// a client sends that is not trusted, and that the same question gets the same answer.
func Contract(t *testing.T, target Target) { t.Helper() }
