package httplimit

// Fields are the forms in which responses tell how much is left, as a set of bits.
type Fields uint8

// The forms.
const (
	// Legacy is X-RateLimit-Limit, -Remaining and -Reset. Reset is in seconds from
	// now.
	Legacy Fields = 1 << iota
	// Draft03 is RateLimit-Limit with the policies, -Remaining and -Reset, as in
	// draft-ietf-httpapi-ratelimit-headers 00 to 03.
	Draft03
	// Draft06 is RateLimit-Limit, -Remaining, -Reset and -Policy, as in drafts 04 to
	// 06.
	Draft06
	// Draft07 is RateLimit as a dictionary and RateLimit-Policy, as in draft 07.
	Draft07
	// Draft08 is RateLimit and RateLimit-Policy as lists of named items, as in drafts
	// 08 to 11.
	Draft08
	// NoFields is none. Retry-After is sent all the same.
	NoFields
)

// DefaultFields are the current draft and X-RateLimit-*.
const DefaultFields = Draft08 | Legacy

// ParseFields reads forms by name: off, legacy (or x-ratelimit), draft-03, draft-06,
// draft-07, draft-08 up to draft-11. None is DefaultFields.
func ParseFields(names ...string) (Fields, error) { return 0, nil }
