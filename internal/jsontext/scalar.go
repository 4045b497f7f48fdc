package jsontext

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Scalar returns the text of a JSON string, number or boolean, and "" for other values.
func Scalar(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
			return "" // all halves of surrogate pairs decode to the same character
		}
		return s
	case c == 't' || c == 'f':
		return string(raw)
	case c == '-' || c >= '0' && c <= '9':
		return number(string(raw))
	}
	return ""
}

// number returns the canonical form of a JSON number: decimal, or with an exponent if that
// is much shorter.
func number(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		e, err := strconv.Atoi(digits[i+1:])
		if err != nil || e > 1<<30 || e < -1<<30 {
			return ""
		}
		digits, exponent = digits[:i], e
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return "0"
	case exponent >= 0 && len(trimmed)+exponent <= 21:
		trimmed += strings.Repeat("0", exponent)
	case exponent < 0 && exponent >= -21:
		trimmed = strings.Repeat("0", max(0, 1-exponent-len(trimmed))) + trimmed
		point := len(trimmed) + exponent
		trimmed = trimmed[:point] + "." + trimmed[point:]
	default:
		trimmed += "e" + strconv.Itoa(exponent)
	}
	if negative {
		return "-" + trimmed
	}
	return trimmed
}
