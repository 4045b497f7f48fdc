// Package programs serves Go programs that follow the published policies over HTTP, and lists
// all programs for operators.
//
//	texts := programs.NewTexts()
//	texts.Set(7, yaml)
//	mux.Handle("GET /v1/published", texts)
//	mux.Handle("POST /v1/programs", programs.Reports(conn))
//	mux.Handle("GET /v1/functions", programs.Functions(conn, log))
//
// The first two belong to the HTTP interface, whose token programs have. That of the admin
// interface would let each of them change limits and read profiles.
package programs
