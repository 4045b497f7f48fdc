package shop

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A refusal is why something was refused, by whom, and when to ask again.
type refusal struct {
	reason sale.Reason
	layer  sale.Layer
	after  time.Duration
}

// layerOf is who refuses for a reason.
func layerOf(r sale.Reason) sale.Layer {
	switch r {
	case sale.NotStarted, sale.HasEnded, sale.IsPaused, sale.IsSoldOut:
		return sale.L0
	case sale.IsAllTaken, sale.PerUserLimit:
		return sale.LS
	case sale.Overloaded:
		return sale.L4
	}
	return sale.L3
}

// afterOf is when to ask again after a refusal; 0 for never.
func afterOf(r sale.Reason, v *sale.View) time.Duration {
	switch r {
	case sale.NotStarted:
		start := v.Sale.StartsAt
		if v.Sale.Queue == sale.Shuffled {
			start = start.Add(-v.Sale.Lobby)
		}
		if v.Phase == sale.InLobby {
			start = v.Sale.StartsAt
		}
		return again(start.Sub(v.Now))
	case sale.IsPaused:
		return again(time.Second)
	case sale.IsAllTaken, sale.QueueFull, sale.NotAdmitted:
		return again(max(time.Second, v.Poll))
	case sale.NoAdmission, sale.Overloaded:
		return again(time.Second)
	}
	return 0
}

// refuse makes a refusal, and counts it.
func (s *Shop) refuse(r sale.Reason, v *sale.View) refusal {
	if r == sale.IsAllTaken && v.Sale.Paid >= v.Sale.Stock {
		r = sale.IsSoldOut
	}
	f := refusal{r, layerOf(r), afterOf(r, v)}
	s.tally.refused(f.layer, f.reason)
	return f
}

// closed is why nothing goes on in a phase, or OK.
func closed(p sale.Phase) sale.Reason {
	switch p {
	case sale.Upcoming:
		return sale.NotStarted
	case sale.SoldOut:
		return sale.IsSoldOut
	case sale.PhasePaused:
		return sale.IsPaused
	case sale.PhaseEnded:
		return sale.HasEnded
	}
	return sale.OK
}
