package story

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

const day = 24 * time.Hour

// Span is d as a story writes it: 30d12h, 1.5s, never.
func Span(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	if d < 0 {
		return "-" + Span(-d)
	}
	days, text := d/day, ""
	if days > 0 {
		text = fmt.Sprintf("%dd", days)
		if d %= day; d == 0 {
			return text
		}
	}
	text += d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ParseSpan reads what Span writes.
func ParseSpan(text string) (time.Duration, error) {
	if text == "never" {
		return weir.Never, nil
	}
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		d, err := ParseSpan(rest)
		if strings.HasPrefix(rest, "-") || d == weir.Never {
			err = fmt.Errorf("want a span such as 1.5s or 30d12h, got %q", text)
		}
		return -d, err
	}
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		days, rest = "0", text
	} else if rest == "" {
		rest = "0"
	}
	n, err := strconv.ParseUint(days, 10, 16)
	d, err2 := time.ParseDuration(rest)
	if err != nil || err2 != nil || d < 0 || d+time.Duration(n)*day < 0 || strings.HasPrefix(rest, "+") {
		return 0, fmt.Errorf("want a span such as 1.5s or 30d12h, got %q", text)
	}
	return time.Duration(n)*day + d, nil
}
