package sale

import (
	"fmt"
	"strings"
	"time"
)

// MinNotice is the least time from an edit of Draft.EndsAt to the new end, so that every process
// knows the end before it comes.
const MinNotice = time.Minute

// lastEdit is the time before the end of a sale from which it cannot be edited: a process may
// be ending it.
const lastEdit = 5 * time.Second

// Terms are the settings of an Inventory's state that change with an edit of an exposed sale.
type Terms struct {
	Version   int64 // of the sale
	EndsAt    time.Time
	PerUser   int
	PayWithin time.Duration
}

// Terms returns the terms of s.
func (s *Sale) Terms() Terms { return Terms{s.Version, s.EndsAt, s.PerUser, s.PayWithin} }

// Validate returns an error if t cannot be the terms of a sale.
func (t Terms) Validate() error {
	var f fieldErrors
	f.check(t.Version >= 0, WrongForm, "version", fmt.Sprint(t.Version), "0 or more")
	f.time("ends_at", t.EndsAt)
	between(&f, "per_user", t.PerUser, 1, 10)
	between(&f, "pay_within", t.PayWithin, time.Second, 24*time.Hour)
	f.millis("pay_within", t.PayWithin)
	return f.err()
}

// ValidateEdit returns an error if d, with its defaults, cannot replace the settings of s at now:
// ErrConflict if s has ended, and otherwise a FieldError for every field. A draft accepts any
// valid settings. Once buyers see the sale, these can change:
//
//   - Title.
//   - EndsAt, to a time at least MinNotice ahead.
//   - PerUser and MaxQuantity, to a larger number: buyers may hold as many units as before.
//   - PayWithin, for the reservations from then on.
//   - Work, for the tickets from then on.
//   - Campaign: the sale joins or leaves the page of a campaign.
func (s *Sale) ValidateEdit(d Draft, now time.Time) error {
	if err := d.Validate(); err != nil || s.State == Drafted {
		return err
	}
	switch {
	case s.State == Ended:
		return fmt.Errorf("%w: sale %s: got state %s, want draft, exposed or paused", ErrConflict, s.ID, s.State)
	case s.EndsAt.Sub(now) < lastEdit:
		return fmt.Errorf("%w: sale %s ends at %s, want at least %v until then", ErrConflict, s.ID, timeText(s.EndsAt), lastEdit)
	}
	var f fieldErrors
	before := s.values()
	for i, v := range d.values() {
		was := before[i].text
		if v.text == was {
			continue
		}
		switch v.field {
		case "title", "pay_within", "work", "campaign":
		case "ends_at":
			f.check(d.EndsAt.Sub(now) >= MinNotice, TooEarly, v.field, v.text, "a time from "+timeText(now.Add(MinNotice))+" on")
		case "per_user":
			f.check(d.PerUser > s.PerUser, OnlyMore, v.field, v.text, was+" to 10: buyers may hold so many units")
		case "max_quantity":
			f.check(d.MaxQuantity > s.MaxQuantity, OnlyMore, v.field, v.text, was+" to per_user: orders may have so many units")
		case "stock":
			f.check(false, IsFixed, v.field, v.text, was+": to add units, use the call for it")
		default:
			f.check(false, IsFixed, v.field, v.text, was+": it is fixed once buyers see the sale")
		}
	}
	return f.err()
}

// Changes describes the fields in which d differs from before, for the audit log. It is empty if
// there are none.
func (d Draft) Changes(before Draft) string {
	var all []string
	old := before.values()
	for i, v := range d.values() {
		if v.text != old[i].text {
			all = append(all, fmt.Sprintf("%s %s → %s", v.field, old[i].text, v.text))
		}
	}
	return strings.Join(all, ", ")
}

// fieldText is a field of a Draft as text, with its name in a FieldError.
type fieldText struct{ field, text string }

func (d Draft) values() []fieldText {
	return []fieldText{
		{"sku", fmt.Sprintf("%q", d.SKU)}, {"title", fmt.Sprintf("%q", d.Title)}, {"price", fmt.Sprint(d.Price)}, {"currency", fmt.Sprintf("%q", d.Currency)},
		{"stock", fmt.Sprint(d.Stock)}, {"per_user", fmt.Sprint(d.PerUser)}, {"max_quantity", fmt.Sprint(d.MaxQuantity)}, {"starts_at", timeText(d.StartsAt)}, {"ends_at", timeText(d.EndsAt)},
		{"headroom", fmt.Sprint(d.Headroom)}, {"queue", fmt.Sprintf("%q", d.Queue)}, {"lobby", d.Lobby.String()}, {"pay_within", d.PayWithin.String()},
		{"token_for", d.TokenFor.String()}, {"work", fmt.Sprint(d.Work)}, {"members_only", fmt.Sprint(d.MembersOnly)},
		{"address", fmt.Sprintf("%q", d.Address)}, {"campaign", fmt.Sprintf("%q", d.Campaign)},
	}
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
