package web

import (
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// The functions of this file are layer L0. They refuse what the phase of a sale alone decides,
// from memory and by the time of the sale.

// notStarted refuses to sell before the start.
func (c *call) notStarted() (layers.Refusal, bool) {
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		return layers.Refusal{}, false
	}
	if phase := v.Sale.PhaseAt(v.Now, v.Free); phase == sale.Upcoming || phase == sale.InLobby {
		return startsAt(v.Sale.StartsAt, v.Now), true
	}
	return layers.Refusal{}, false
}

// closedToJoin refuses tickets before the start or the lobby, and when no unit can be bought.
func (c *call) closedToJoin() (layers.Refusal, bool) {
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		return layers.Refusal{}, false
	}
	if v.Sale.PhaseAt(v.Now, v.Free) == sale.Upcoming {
		at := v.Sale.StartsAt
		if v.Sale.Queue == sale.Shuffled {
			at = at.Add(-v.Sale.Lobby)
		}
		return startsAt(at, v.Now), true
	}
	reason := closedReason(&v, v.Sale.Queue == sale.Direct)
	return layers.Refusal{Reason: reason}, reason != ""
}

// closedToStatus is closedToJoin for users without a session. A user with one may have a
// ticket or a unit; before the start or the lobby there are none.
func (c *call) closedToStatus() (layers.Refusal, bool) {
	refusal, refused := c.closedToJoin()
	if !refused || refusal.Reason == sale.NotStarted {
		return refusal, refused
	}
	c.identify()
	return refusal, c.user == ""
}

// closedToBuy refuses to sell when no unit can be bought, unless the user has an admission
// token: that user may have bought before, and gets the same receipt again.
func (c *call) closedToBuy() (layers.Refusal, bool) {
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		return layers.Refusal{}, false
	}
	reason := closedReason(&v, true)
	return layers.Refusal{Reason: reason}, reason != "" && !c.hasToken()
}

// maxRetry bounds Retry-After.
const maxRetry = 365 * 24 * time.Hour

func startsAt(at, now time.Time) layers.Refusal {
	return layers.Refusal{Reason: sale.NotStarted, RetryAfter: min(max(at.Sub(now), time.Millisecond), maxRetry)}
}

// closedReason returns why no unit can be bought, or an empty reason. AllTaken is a reason only
// with allTaken set: units may come back to those who wait in a queue.
func closedReason(v *sale.View, allTaken bool) sale.Reason {
	switch v.Sale.PhaseAt(v.Now, v.Free) {
	case sale.PhaseEnded:
		return sale.HasEnded
	case sale.PhasePaused:
		return sale.IsPaused
	case sale.SoldOut:
		return sale.IsSoldOut
	case sale.AllTaken:
		if allTaken {
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
	token, _, f := c.token()
	if f != nil {
		return false
	}
	t, err := c.config.Keys.OpenToken(token)
	return err == nil && t.User == c.user && t.Sale == c.id
}
