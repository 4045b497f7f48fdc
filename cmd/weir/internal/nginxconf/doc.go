// Package nginxconf reads an nginx.conf and returns which limits apply to which
// requests.
//
//	root, err := nginxconf.Read("/etc/nginx/nginx.conf", nginxconf.Files{}, absent)
//	…
//	h, err := nginxconf.Limits(root)
//	…
//	for _, s := range h.Servers {
//		for _, o := range s.Scopes {
//			fmt.Println(s.Name(), o.Location, o.Uses)
//		}
//	}
//
// [Read] parses words, blocks and includes; include is the only directive that it
// interprets. [Limits] interprets limit_req and limit_conn, their inheritance, and
// which server and location take a request.
//
// # Guarantees
//
// Directives are in the order in which nginx reads them, each with its file and line.
// The number and size of files and the nesting of blocks and includes are bounded.
//
// Paths and hosts are compared without case, also for ~, as on a file system without
// case. Variables, map, geo and if are not evaluated.
//
// # Errors
//
// A file that nginx would refuse is an [Error] with file and line. If the first file
// cannot be read, Read returns that error. An include that cannot be read is reported
// to the caller.
package nginxconf
