package policy

// A Match says which requests a policy is about: those that fit every list that
// is not empty. A request fits a list if it fits one of its elements.
type Match struct {
	// Methods are compared without case. GET stands for HEAD too, as the two cost a
	// server the same.
	Methods []string

	// Hosts are names, or "*." and a name for all names below it. They are compared
	// without case, port and trailing dot.
	Hosts []string

	// Paths are patterns:
	//
	//	/api/users          this path
	//	/api/*              /api and all below it
	//	/users/{id}/orders  any one segment in the place of {id}
	//	/files/{rest...}    /files and all below it, as /files/*
	//
	// A trailing slash in a request makes no difference. Of several patterns that
	// match, the first names the key.
	Paths []string

	// Headers are values by header name; "*" is any value but an empty one. All
	// names have to fit.
	Headers map[string][]string

	// Where, if not nil, has to hold too.
	Where Expression[bool]
}
