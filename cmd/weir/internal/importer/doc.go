// Package importer turns the limits of other programs into a policy file: those of an
// nginx.conf, of the configuration of envoyproxy/ratelimit, and Sentinel's flow rules.
//
//	r, err := importer.Nginx("/etc/nginx/nginx.conf", importer.Files{})
//	…
//	os.Stdout.WriteString(r.Text)
//	for _, i := range r.Listed {
//		fmt.Fprintln(os.Stderr, i) // nginx.conf:40: limit_rate 100k: …
//	}
//
// # Guarantees
//
// The file is one that package weirfile accepts: each policy is read back before it is
// kept. The same input makes the same text.
//
// Where a policy does not mean to the letter what it was made of, a comment that begins
// with "differs:" says so beside it. What cannot be expressed is in Result.Listed and at
// the end of the file, never dropped.
//
// # Errors
//
// Input that its own program would refuse, or that cannot be read, is an [Error] with
// file and line.
package importer
