// Package scan reads the fields of a JSON object without allocation.
package scan

import (
	"bytes"
	"strconv"
)

// Text returns the content of a string. It returns nothing for other values and for strings with
// escapes, which no field that is sent back has.
func Text(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 {
		return nil
	}
	return v[1 : len(v)-1]
}

// Number returns a whole number up to 10^15, or 0.
func Number(v []byte) int64 {
	if len(v) > 16 {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n > 1e15 || n < 0 {
		return 0
	}
	return n
}

// Object calls each for every key and value of a JSON object, and reports whether it reached the
// end. Values are delimited, not validated.
func Object(b []byte, each func(key, value []byte)) bool {
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

// ends has the bytes that end a number, true, false or null.
var ends = [256]bool{',': true, ':': true, '{': true, '}': true, '[': true, ']': true, '"': true, ' ': true, '\t': true, '\n': true, '\r': true}

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
			for i < len(b) && !ends[b[i]] {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}
