package httpapi

import "encoding/json"

// A member is a field of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// maxScanned is the maximum number of fields of an object that scan reads.
const maxScanned = 8

// scan parses a JSON object in the usual form of a request: known fields, once each, with
// strings without escapes and whole numbers. It reports false for all other text, which the
// JSON decoder has to parse. data is UTF-8.
func scan(data []byte, to *[maxScanned]member) (n int, ok bool) {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != '{' {
		return 0, false
	}
	for i = skipSpace(data, i+1); n < maxScanned; n++ {
		from := i
		if i = endOfString(data, i); i < 0 {
			return 0, false
		}
		m := &to[n]
		if m.name = knownField(data[from+1 : i-1]); m.name == "" || hasName(to[:n], m.name) {
			return 0, false
		}
		if i = skipSpace(data, i); i == len(data) || data[i] != ':' {
			return 0, false
		}
		from = skipSpace(data, i+1)
		if i = endOfString(data, from); i < 0 {
			i = endOfNumber(data, from)
		}
		if i < 0 {
			return 0, false
		}
		m.value = data[from:i:i]
		if i = skipSpace(data, i); i == len(data) {
			return 0, false
		}
		switch data[i] {
		case ',':
			i = skipSpace(data, i+1)
		case '}':
			return n + 1, skipSpace(data, i+1) == len(data)
		default:
			return 0, false
		}
	}
	return 0, false
}

func hasName(ms []member, name string) bool {
	for i := range ms {
		if ms[i].name == name {
			return true
		}
	}
	return false
}

// knownField returns the name of a field that apiRequest.set knows, without an allocation, or "".
func knownField(name []byte) string {
	switch string(name) {
	case "key":
		return "key"
	case "limit":
		return "limit"
	case "policy":
		return "policy"
	case "n":
		return "n"
	case "id":
		return "id"
	case "ttl":
		return "ttl"
	case "at":
		return "at"
	case "verb":
		return "verb"
	}
	return ""
}

// skipSpace returns the index of the next byte that is not white space.
func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// endOfString returns the index after the string that begins at i, or -1 if there is none, or
// one with escapes.
func endOfString(data []byte, i int) int {
	if i == len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\' || c < ' ':
			return -1
		}
	}
	return -1
}

// endOfNumber returns the index after the whole number that begins at i, or -1.
func endOfNumber(data []byte, i int) int {
	from := i
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	if i == from || data[from] == '0' && i > from+1 {
		return -1
	}
	return i
}
