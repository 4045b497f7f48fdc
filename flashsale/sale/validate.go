package sale

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a Draft.
const (
	MaxPrice  = 1_000_000_000_000 // times MaxStock, it fits in an int64
	MaxStock  = 1_000_000
	MaxLength = 30 * 24 * time.Hour // of a sale
)

// MaxWork is the largest Draft.Work: about sixteen million hashes.
const MaxWork = 24

// WithDefaults returns d with defaults for its zero fields. It rounds times and durations down
// to whole milliseconds, and converts times to UTC.
func (d Draft) WithDefaults() Draft {
	d.Currency = cmp.Or(d.Currency, "CNY")
	d.PerUser = cmp.Or(d.PerUser, 1)
	d.MaxQuantity = cmp.Or(d.MaxQuantity, 1)
	d.Headroom = cmp.Or(d.Headroom, 3)
	d.Queue = cmp.Or(d.Queue, Fifo)
	d.Address = cmp.Or(d.Address, NoAddress)
	d.PayWithin = cmp.Or(d.PayWithin, 15*time.Minute).Truncate(time.Millisecond)
	d.TokenFor = cmp.Or(d.TokenFor, 30*time.Second).Truncate(time.Millisecond)
	d.Lobby = d.Lobby.Truncate(time.Millisecond)
	for _, t := range []*time.Time{&d.StartsAt, &d.EndsAt} {
		if !t.IsZero() {
			*t = time.UnixMilli(t.UnixMilli()).UTC()
		}
	}
	return d
}

// Validate returns an error with a FieldError for every field that is not accepted, in the order
// of the fields. It does not set defaults.
func (d Draft) Validate() error {
	var f fieldErrors
	f.check(IsSKU(d.SKU), WrongForm, "sku", quote(d.SKU), SKUForm)
	f.text("title", d.Title, 120)
	between(&f, "price", d.Price, 0, MaxPrice)
	f.check(isCurrency(d.Currency), WrongForm, "currency", quote(d.Currency), "three capital letters of ISO 4217")
	between(&f, "stock", d.Stock, 1, MaxStock)
	between(&f, "per_user", d.PerUser, 1, 10)
	between(&f, "max_quantity", d.MaxQuantity, 1, max(1, min(d.PerUser, 10)))
	starts, ends := f.time("starts_at", d.StartsAt), f.time("ends_at", d.EndsAt)
	if starts && ends {
		f.check(d.EndsAt.After(d.StartsAt) && d.EndsAt.Sub(d.StartsAt) <= MaxLength,
			WrongOrder, "ends_at", d.EndsAt.Format(time.RFC3339Nano), "after starts_at by at most 30 days")
	}
	between(&f, "headroom", d.Headroom, 1, 10)
	switch d.Queue {
	case Shuffled:
		between(&f, "lobby", d.Lobby, 0, time.Hour)
	case Fifo, Direct:
		f.check(d.Lobby == 0, NotUsed, "lobby", d.Lobby.String(), "0: only the queue shuffled has a lobby")
	default:
		f.check(false, WrongForm, "queue", quote(string(d.Queue)), "fifo, shuffled or direct")
	}
	between(&f, "pay_within", d.PayWithin, time.Second, 24*time.Hour)
	between(&f, "token_for", d.TokenFor, time.Second, 10*time.Minute)
	between(&f, "work", d.Work, 0, MaxWork)
	f.check(d.Campaign == "" || IsCampaign(d.Campaign), WrongForm, "campaign", quote(d.Campaign), "1 to 40 lower-case letters, digits and hyphens between them")
	switch d.Address {
	case NoAddress, AddressOptional, AddressRequired:
	default:
		f.check(false, WrongForm, "address", quote(string(d.Address)), "none, optional or required")
	}
	f.millis("lobby", d.Lobby)
	f.millis("pay_within", d.PayWithin)
	f.millis("token_for", d.TokenFor)
	return f.err()
}

func (f *fieldErrors) time(field string, t time.Time) bool {
	n := len(*f)
	switch {
	case t.IsZero():
		f.check(false, NoTime, field, "none", "a time")
	default:
		// RFC 3339 can format these years in any time zone.
		f.check(t.Year() >= 1971 && t.Year() <= 9998, NoTime, field, t.Format(time.RFC3339Nano), "a time in the years 1971 to 9998")
		f.check(t.Nanosecond()%int(time.Millisecond) == 0, NoTime, field, t.Format(time.RFC3339Nano), "whole milliseconds")
	}
	return len(*f) == n
}

func (f *fieldErrors) millis(field string, v time.Duration) {
	f.check(v%time.Millisecond == 0, WrongForm, field, v.String(), "whole milliseconds")
}

func between[T int | int64 | time.Duration](f *fieldErrors, field string, v, low, high T) {
	if v >= low && v <= high {
		return
	}
	unit := T(1)
	if _, is := any(v).(time.Duration); is {
		unit = T(time.Millisecond)
	}
	*f = append(*f, &FieldError{field, fmt.Sprint(v), fmt.Sprintf("%v to %v", low, high), OutOfRange, int64(low / unit), int64(high / unit)})
}

// quote returns the beginning of untrusted text, with control characters escaped.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%+q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%+q", s)
}

// SKUForm describes what IsSKU accepts.
const SKUForm = "1 to 64 letters a-z A-Z, digits, . _ -"

// IsSKU reports whether s can be the SKU of a sale.
func IsSKU(s string) bool {
	return len(s) >= 1 && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !isWord(r) && r != '.' && r != '_'
	})
}

// IsCampaign reports whether s can be the name of a campaign: 1 to 40 lower-case letters and digits,
// and hyphens between them.
func IsCampaign(s string) bool {
	return len(s) >= 1 && len(s) <= 40 && strings.Trim(s, "-") == s && !strings.ContainsFunc(s, func(r rune) bool {
		return !isWord(r) || r >= 'A' && r <= 'Z'
	})
}

// isWord reports whether r is an ASCII letter, a digit or a hyphen.
func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-'
}

func isCurrency(s string) bool {
	return len(s) == 3 && !strings.ContainsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' })
}

// textFault returns what a text must be, or an empty string if it is accepted. Other users see the text, so it must not contain hidden characters, change the
// direction of the text around it, or cover other lines.
func textFault(s string) string {
	if !utf8.ValidString(s) {
		return "valid UTF-8"
	}
	if strings.TrimSpace(s) != s {
		return "no space at its ends"
	}
	seen, marks := false, 0
	for _, r := range s {
		switch {
		case unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return "no control characters"
		case r == '\u200c', r == '\u200d': // joiners that some scripts and emoji need
		case unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs), r == utf8.RuneError, !unicode.IsPrint(r) && !unicode.IsSpace(r):
			return "no characters that cannot be seen"
		}
		if marks++; !unicode.IsMark(r) {
			marks = 0
		}
		if marks > 8 {
			return "at most 8 marks on one letter"
		}
		seen = seen || unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !isBlank(r)
	}
	if !seen {
		return "something that can be seen"
	}
	return ""
}

// isBlank reports whether r is a letter or symbol without a visible form.
func isBlank(r rune) bool {
	return r == '\u115f' || r == '\u1160' || r == '\u2800' || r == '\u3164' || r == '\uffa0'
}
