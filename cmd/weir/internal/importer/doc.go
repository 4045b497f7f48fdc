// Package importer converts the limits of other programs to a policy file: those of an
// nginx.conf, of the configuration of envoyproxy/ratelimit, and rules of Sentinel.
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
// Package weirfile accepts the file: policies that are not valid are listed. The same
// input produces the same text.
//
// Where a policy differs from its input, a comment that begins with "differs:"
// describes how. Everything that cannot be expressed is in Result.Listed and at the end
// of the file.
//
// # Errors
//
// Input that its own program would refuse, or that cannot be read, results in an [Error]
// with file and line.
package importer
