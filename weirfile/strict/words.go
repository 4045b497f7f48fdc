package strict

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir/internal/fault"
)

// Printable returns text on one line, without unprintable characters, shortened to 200
// bytes.
func Printable(text string) string { return fault.Printable(text) }

// Quoted returns s in quotes, shortened to fit a line.
func Quoted(s string) string { return fault.Quote(s) }

// OneOf joins names as "a, b or c". There is at least one.
func OneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Join returns the name of a field in the map field, which is "" for the whole file.
func Join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// Index returns the name of the i-th element of the list field, from 0.
func Index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
