package audit

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// hidden replaces a part of a key in a text.
const hidden = "[key]"

// shortPart is the length up to which a part is hidden only as a whole word: "1" is not hidden in
// "100/s".
const shortPart = 3

// withoutKey returns e for the role read: without its key, also in the texts that operators wrote.
func (e Entry) withoutKey() Entry {
	HideKey(e.Key, &e.Reason, &e.From, &e.To, &e.Error)
	e.Key = nil
	return e
}

// HideKey replaces the parts of a key in texts, in upper and lower case and quoted, and what is left
// of a part at the end of a shortened text.
func HideKey(key []string, texts ...*string) {
	var parts []string
	for _, part := range key {
		quoted := strconv.Quote(part)
		for _, p := range []string{strings.TrimSuffix(part, "…"), quoted[1 : len(quoted)-1]} {
			if p != "" && !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	if len(parts) == 0 {
		return
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the longest match
	patterns := make([]string, len(parts))
	for i, part := range parts {
		patterns[i] = regexp.QuoteMeta(strings.ToValidUTF8(part, "\uFFFD")) // as in shortened texts
		if first, _ := utf8.DecodeRuneInString(part); len(part) <= shortPart && isWord(first) {
			patterns[i] = `\b` + patterns[i]
		}
		if last, _ := utf8.DecodeLastRuneInString(part); len(part) <= shortPart && isWord(last) {
			patterns[i] += `\b`
		}
	}
	all := regexp.MustCompile("(?i)" + strings.Join(patterns, "|"))
	for _, text := range texts {
		*text = all.ReplaceAllLiteralString(*text, hidden)
		if rest, cut := strings.CutSuffix(*text, "…"); cut {
			*text = withoutBeginning(rest, parts) + "…"
		}
	}
}

// isWord reports whether \b is between c and a space.
func isWord(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// withoutBeginning returns text without the longest beginning of a part at its end.
func withoutBeginning(text string, parts []string) string {
	longest := 0
	for _, part := range parts {
		for n := min(len(part), len(text)); n > longest; n-- {
			if strings.EqualFold(text[len(text)-n:], part[:n]) {
				longest = n
			}
		}
	}
	if longest == 0 {
		return text
	}
	return text[:len(text)-longest] + hidden
}
