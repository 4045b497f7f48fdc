package policy

// A Match selects requests. Every list that is not empty must have an element that matches.
type Match struct {
	// Methods are compared without case. GET matches HEAD too, because they cost a server
	// the same.
	Methods []string

	// Hosts are names, or "*." and a name for all names below it, compared without case,
	// port and trailing dot.
	Hosts []string

	// Paths are patterns:
	//
	//	/api/users          this path
	//	/api/*              /api and all paths below it
	//	/users/{id}/orders  any one segment for {id}
	//	/files/{rest...}    /files and all paths below it, like /files/*
	//
	// A trailing slash in a request makes no difference. The key has the first pattern that
	// matches.
	Paths []string

	// Headers are accepted values by header name; "*" accepts any value but an empty one.
	// All names must match.
	Headers map[string][]string

	// Where, if not nil, must be true too.
	Where Expression[bool]
}
