package web

import (
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// early is L0: it answers what the phase of a sale alone decides, from memory and by the
// time of the sale, whatever the clock of this process says, before anything else is looked
// at.
func (s *Shop) early(w http.ResponseWriter, c *call) bool {
	if c.at != atTicket && c.at != atBuy || !c.at.allows(c.r.Method) {
		return false
	}
	v, err := s.c.Service.View(c.r.Context(), c.id)
	if err != nil {
		return false
	}
	var f layers.Refusal
	switch v.Sale.PhaseAt(v.Now, v.Free) {
	case sale.Upcoming:
		f = c.soon(&v)
	case sale.InLobby:
		if c.at == atTicket {
			return false
		}
		f = soonAt(v.Sale.StartsAt, v.Now)
	default:
		// Who buys may have bought already, and ask again: see late.
		if c.at == atBuy {
			return false
		}
		if f.Reason = shut(&v, v.Sale.Queue == sale.Direct); f.Reason == "" {
			return false
		}
		// Who asks for a ticket may have one, or hold a unit.
		if reads(c.r.Method) {
			if c.identify(); c.user != "" {
				return false
			}
		}
	}
	s.c.Layers.Refuse(w, f)
	return true
}

// late is L0 for who wants to buy while nothing is for sale: whoever has no admission token
// is told so. With a token of one's own the answer may be a receipt from before.
func (s *Shop) late(w http.ResponseWriter, c *call) bool {
	if c.r.Method != http.MethodPost {
		return false
	}
	v, err := s.c.Service.View(c.r.Context(), c.id)
	if err != nil {
		return false
	}
	reason := shut(&v, true)
	if reason == "" || c.hasToken() {
		return false
	}
	s.c.Layers.Refuse(w, layers.Refusal{Reason: reason})
	return true
}

// soon is the refusal of who comes before the lobby opens, or the sale.
func (c *call) soon(v *sale.View) layers.Refusal {
	at := v.Sale.StartsAt
	if c.at == atTicket && v.Sale.Queue == sale.Shuffled {
		at = at.Add(-v.Sale.Lobby)
	}
	return soonAt(at, v.Now)
}

// longest is the longest that anybody is told to wait.
const longest = 365 * 24 * time.Hour

func soonAt(at, now time.Time) layers.Refusal {
	return layers.Refusal{Reason: sale.NotStarted, RetryAfter: min(max(at.Sub(now), time.Millisecond), longest)}
}

// shut is why nothing is for sale, or empty. taken says whether that no unit is free is a
// reason: it is none for a line, to whose head a unit may return.
func shut(v *sale.View, taken bool) sale.Reason {
	switch v.Sale.PhaseAt(v.Now, v.Free) {
	case sale.PhaseEnded:
		return sale.HasEnded
	case sale.PhasePaused:
		return sale.IsPaused
	case sale.SoldOut:
		return sale.IsSoldOut
	case sale.AllTaken:
		if taken {
			return sale.IsAllTaken
		}
	}
	return ""
}

// hasToken reports whether the body has an admission token of the user for this sale.
func (c *call) hasToken() bool {
	if c.user == "" || c.fault != nil {
		return false
	}
	token, f := c.token()
	if f != nil {
		return false
	}
	t, err := c.s.c.Keys.OpenToken(token)
	return err == nil && t.User == c.user && t.Sale == c.id
}
