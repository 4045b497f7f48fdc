// Package nginxconf reads an nginx.conf and says which limits it puts on which requests.
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
// [Read] knows words, blocks and includes, and no directive but include. [Limits] knows
// limit_req and limit_conn, what is inherited from a block to those within it, and
// which server and location take a request.
//
// # Guarantees
//
// The directives of a file and of what it includes come in the order in which nginx
// reads them, each with the place it stands at. What is read is bounded: files, their
// size, and how deep blocks and includes stand within each other.
//
// Paths and hosts are compared without case, of ~ too, as on a file system that knows
// none. What variables mean, and map, geo and if, is not looked at.
//
// # Errors
//
// What nginx would refuse is an [Error] with file and line. A first file that cannot be
// read is the error of reading it; an include that cannot be read is for the caller.
package nginxconf
