package policy

// A Source says where a part of a key comes from.
type Source string

// The sources.
const (
	// ClientIP is the client's address: an IPv4 address whole, an IPv6 address cut to
	// its first 64 bits. Name may be the number of bits to keep of an IPv6 address
	// instead, from 1 to 128.
	ClientIP Source = "client.ip"
	// Header is the header Name. What a client chooses freely limits nobody: use a
	// header that something in front of the door has verified.
	Header Source = "header"
	// Query is the query parameter Name.
	Query Source = "query"
	// Cookie is the cookie Name.
	Cookie Source = "cookie"
	// Path is the pattern of Match.Paths that matched.
	Path Source = "path"
	// Method is the method. Methods that neither HTTP defines nor Match.Methods lists
	// are one.
	Method Source = "method"
	// Host is the host name, without case, port and trailing dot.
	Host Source = "host"
	// Constant is the text Name.
	Constant Source = "const"
)

// A KeyPart is one part of what names a bucket.
type KeyPart struct {
	Source Source
	Name   string
}

// ParseKeyPart reads a part from text: client.ip, client.ip/56, header:NAME,
// query:NAME, cookie:NAME, path, method, host or const:TEXT.
func ParseKeyPart(text string) (KeyPart, error) { return KeyPart{}, nil }
