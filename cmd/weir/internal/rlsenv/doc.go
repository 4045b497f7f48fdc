// Package rlsenv reads the environment variables of envoyproxy/ratelimit as a
// configuration of the program.
//
//	c, err := rlsenv.Read(rlsenv.Source{Getenv: os.Getenv, Names: names})
//
// Every variable has the same meaning as there, or a note in the log that it has no effect,
// or an error. An empty variable counts as not set. Settings that envoyproxy/ratelimit does
// not have come from the WEIR_ variables of `weir serve`.
package rlsenv
