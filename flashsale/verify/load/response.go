package load

import (
	"bytes"
	"strconv"
)

// A response holds the fields that the load generator reads from a body. Its texts are slices of
// the body.
type response struct {
	state, place, token, until []byte
	receipt, at, user          []byte
	held, heldAt               []byte // the receipt of the first unit that a ticket's user holds, and its time
	reason, layer              []byte
	phase                      []byte // of the view
	challenge                  []byte // of a refusal: the proof-of-work challenge
	bits                       int64
	poll, retry                int64 // milliseconds
	ahead, left                int64
	complete                   bool // whether the body is a complete JSON object
}

// read reads a body, which may be invalid.
func (a *response) read(body []byte) {
	*a = response{}
	names := [...]string{"state", "place", "token", "until", "receipt", "at", "user", "reason", "layer", "challenge", "phase"}
	texts := [...]*[]byte{&a.state, &a.place, &a.token, &a.until, &a.receipt, &a.at, &a.user, &a.reason, &a.layer, &a.challenge, &a.phase}
	a.complete = object(body, func(key, value []byte) {
		for i, name := range names {
			if string(key) == name {
				*texts[i] = text(value)
				return
			}
		}
		switch string(key) {
		case "held":
			object(bytes.TrimPrefix(value, []byte("[")), func(key, value []byte) {
				switch string(key) {
				case "receipt":
					a.held = text(value)
				case "at":
					a.heldAt = text(value)
				}
			})
		case "poll_after_ms":
			a.poll = number(value)
		case "retry_after_ms":
			a.retry = number(value)
		case "bits":
			a.bits = number(value)
		case "ahead":
			a.ahead = number(value)
		case "left":
			a.left = number(value)
		case "view":
			object(value, func(key, value []byte) {
				if string(key) == "phase" {
					a.phase = text(value)
				}
			})
		}
	})
}

// text returns the content of a string. It returns nothing for other values and for strings with
// escapes, which no field that is sent back has.
func text(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 {
		return nil
	}
	return v[1 : len(v)-1]
}

// number returns a whole number up to 10^15, or 0.
func number(v []byte) int64 {
	if len(v) > 16 {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n > 1e15 || n < 0 {
		return 0
	}
	return n
}

// object calls each for every key and value of a JSON object, and reports whether it reached the
// end. Values are delimited, not validated.
func object(b []byte, each func(key, value []byte)) bool {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return true
	}
	for i < len(b) {
		from := i
		if i = value(b, i); i < 0 || b[from] != '"' {
			return false
		}
		key := b[from+1 : i-1]
		if i = space(b, i); i >= len(b) || b[i] != ':' {
			return false
		}
		i = space(b, i+1)
		from = i
		if i = value(b, i); i < 0 {
			return false
		}
		each(key, b[from:i])
		i = space(b, i)
		switch {
		case i >= len(b):
			return false
		case b[i] == '}':
			return true
		case b[i] != ',':
			return false
		}
		i = space(b, i+1)
	}
	return false
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// value returns the end of the value at i, or -1.
func value(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if i >= len(b) {
				return -1
			}
			i++
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
			if depth < 0 {
				return -1
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			for i < len(b) && !bytes.ContainsRune([]byte(",:{}[]\" \t\n\r"), rune(b[i])) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}
