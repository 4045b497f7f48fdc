// Package httplimit limits the requests of an HTTP server by policies.
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	http.ListenAndServe("127.0.0.1:8000", m.Wrap(handler))
package httplimit
