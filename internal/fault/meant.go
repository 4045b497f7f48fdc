package fault

import "strings"

// Meant returns the known name that a misspelled name is closest to, or "".
func Meant(name string, known []string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, k := range known {
		if n := edits(strings.ToLower(name), k, least); n < least {
			best, least = k, n
		}
	}
	if best == "" && len(name) >= 3 {
		for _, k := range known {
			if strings.HasPrefix(k, name) || len(k) >= 3 && strings.HasPrefix(name, k) {
				return k
			}
		}
	}
	return best
}

// edits returns the number of insertions, deletions, changes and swaps of neighbours
// that turn a into b, or any number from most on if it is at least that.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
