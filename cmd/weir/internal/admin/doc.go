// Package admin is the door for those who run the program: metrics, what is loaded, why
// a request is decided as it is, and profiles.
//
//	a, err := admin.New(admin.Config{Address: "127.0.0.1:9090", Metrics: m.Handler()})
//	…
//	http.ListenAndServe("127.0.0.1:9090", a)
//
// GET / lists what there is.
//
// # Guarantees
//
// A door that other machines can reach asks for a token, or is not made. A token is
// asked for at every path, on loopback too if there is one, and compared in constant
// time. Whoever guesses has ten tries a minute for each address; an IPv6 address stands
// for its /64. While there are none left, the token itself is of no use from there.
//
// A token comes as "Authorization: Bearer TOKEN", or as the password of Basic with any
// user, which is what a browser can ask a person for.
//
// A page in a browser cannot ask, wherever it comes from: nothing is answered to another
// origin, there are no CORS fields, and without a token the door has to be called by
// address or as localhost, which no name can be pointed at (DNS rebinding). Nothing here
// changes anything, and everything but /v1/explain is GET or HEAD.
//
// Profiles last a minute at most. The command line, which may hold a password, is not
// told.
//
// # Errors
//
// Everything that is refused is a problem document (RFC 9457).
package admin
