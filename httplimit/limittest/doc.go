// Package limittest tests adapters of package httplimit to web frameworks. Run checks that an
// adapter behaves like the middleware of net/http; the other functions help to test what is
// special about a framework.
//
//	func TestAdapter(t *testing.T) {
//		limittest.Run(t, limittest.Adapter{Serve: serve})
//	}
package limittest
