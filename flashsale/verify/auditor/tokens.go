package auditor

import (
	"github.com/floodweir/weir/flashsale/verify/calllog"

	"cmp"
	"slices"
	"time"
)

// usedTokens checks that each token was used by its user, once and before it expired.
func (c *checker) usedTokens() {
	type issue struct {
		saleUser
		until time.Time
	}
	given := map[string]issue{}
	for _, o := range c.seen {
		if (o.Action == calllog.Join || o.Action == calllog.Poll) && o.Token != "" && ok(o.Status) {
			w := saleUser{o.Sale, o.User}
			g, again := given[o.Token]
			c.records.check(Tokens, !again || g.saleUser == w, "sale %s: one token was issued to %s and to %s", o.Sale, g.user, o.User)
			given[o.Token] = issue{w, o.Until}
		}
	}
	used := map[string]calllog.Call{}
	for _, o := range c.seen {
		if o.Action != calllog.Buy || o.Token == "" || !ok(o.Status) {
			continue
		}
		if g, known := given[o.Token]; known {
			c.records.check(Tokens, g.saleUser == saleUser{o.Sale, o.User}, "sale %s: %s bought with a token that was issued to %s for sale %s", o.Sale, o.User, g.user, g.sale)
			if !o.Granted.IsZero() && !g.until.IsZero() {
				c.records.check(Tokens, !o.Granted.After(g.until), "sale %s: %s was granted a unit at %s with a token that expired at %s", o.Sale, o.User, clock(o.Granted), clock(g.until))
			}
		} else if c.facts.Complete {
			c.records.check(Tokens, false, "sale %s: %s bought with a token that was never issued", o.Sale, o.User)
		}
		if f, again := used[o.Token]; again {
			c.records.check(Tokens, f.Receipt == o.Receipt, "sale %s: one token bought %s and later %s", o.Sale, c.reservation(f.Receipt), c.reservation(o.Receipt))
		} else {
			used[o.Token] = o
		}
	}
}

// misuses checks that calls with a deliberate error were refused.
func (c *checker) misuses() {
	first := map[string]string{} // receipts by token
	for _, o := range c.seen {
		if o.Action == calllog.Buy && o.Misuse == calllog.Valid && ok(o.Status) && o.Token != "" {
			first[o.Token] = o.Receipt
		}
	}
	for _, o := range c.seen {
		name := Tokens
		switch o.Misuse {
		case calllog.Valid:
			continue
		case calllog.Early, calllog.Late:
			if o.Token == "" {
				name = InTime
			}
		}
		refused := o.Status >= 400 && o.Status < 500 || o.Status == 503
		switch {
		case o.Status == 0:
		case o.Misuse == calllog.Replayed:
			c.records.check(name, refused || o.Receipt != "" && o.Receipt == first[o.Token], "sale %s: %s repeated a token and received %d with %s instead of %s",
				o.Sale, o.User, o.Status, c.reservation(o.Receipt), c.reservation(first[o.Token]))
		case o.Misuse == calllog.Early && o.Action == calllog.Join && ok(o.Status):
			// A user may join before the start if the sale has a lobby, but receives no token.
			c.records.check(name, o.Token == "", "sale %s: %s received a token before the start", o.Sale, o.User)
		default:
			c.records.check(name, refused, "sale %s: %s of %s was %s, it returned %d", o.Sale, o.Action, o.User, o.Misuse, o.Status)
		}
	}
}

// An issuedToken was outstanding from its issue until its use or its expiry.
type issuedToken struct {
	from, to int64
	epoch    int64
}

// outstandingTokens checks how many tokens were outstanding at once. The first token of an epoch
// ends the tokens of earlier epochs.
func (c *checker) outstandingTokens() {
	for id, tokens := range c.issuedTokens() {
		s := c.rows.sale(id)
		began := map[int64]int64{} // when the first token of an epoch was issued
		for _, t := range tokens {
			if first, known := began[t.epoch]; !known || t.from < first {
				began[t.epoch] = t.from
			}
		}
		type event struct{ at, more int64 }
		var events []event
		for _, t := range tokens {
			for epoch, first := range began {
				if t.epoch > 0 && epoch > t.epoch && t.from < first { // a later token does not belong to the old epoch's rest
					t.to = min(t.to, first)
				}
			}
			events = append(events, event{t.from, 1}, event{t.to, -1})
		}
		slices.SortFunc(events, func(x, y event) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.more, y.more)) })
		var out int64
		for _, e := range events {
			if out += e.more; e.more > 0 {
				c.records.check(Bounded, out <= s.headroom*s.stock, "sale %s: %d admission tokens were outstanding at %s, want at most %d × %d",
					id, out, at(e.at), s.headroom, s.stock)
			}
		}
	}
}

// issuedTokens returns the issued tokens, by sale and token.
func (c *checker) issuedTokens() map[string]map[string]*issuedToken {
	tokens := map[string]map[string]*issuedToken{}
	for _, o := range c.seen {
		s := c.rows.sale(o.Sale)
		switch {
		case s == nil || o.Token == "" || !ok(o.Status):
		case (o.Action == calllog.Join || o.Action == calllog.Poll) && !o.Until.IsZero():
			if tokens[o.Sale] == nil {
				tokens[o.Sale] = map[string]*issuedToken{}
			}
			until := o.Until.UnixMilli()
			tokens[o.Sale][o.Token] = &issuedToken{from: until - s.tokenFor, to: until, epoch: o.Epoch}
		case o.Action == calllog.Buy && !o.Granted.IsZero():
			if t := tokens[o.Sale][o.Token]; t != nil {
				t.to = min(t.to, o.Granted.UnixMilli())
			}
		}
	}
	return tokens
}

// ticketEnds checks that every ticket reached an end that its user received.
func (c *checker) ticketEnds() {
	last := map[saleUser]calllog.Call{}
	for _, o := range c.seen {
		if o.User == "" || o.Misuse != calllog.Valid || uncertain(o.Status) && o.Action != calllog.Leave {
			continue
		}
		switch o.Action {
		case calllog.Join, calllog.Poll, calllog.Leave:
		case calllog.Buy:
			if !ok(o.Status) && !final(o.Reason) {
				continue
			}
		default:
			continue
		}
		w := saleUser{o.Sale, o.User}
		s := c.rows.sale(o.Sale)
		if s == nil {
			continue
		}
		if ok(o.Status) && o.State == "admitted" && !o.Until.IsZero() {
			over := o.Sent.Sub(o.Until)
			c.records.check(TicketsEnd, over <= c.auditor.config.Slack, "sale %s: %s received admitted until %s at %s", o.Sale, o.User, clock(o.Until), clock(o.At))
		}
		if ok(o.Status) && o.State == "waiting" {
			over := o.Sent.Sub(time.UnixMilli(s.ends))
			c.records.check(TicketsEnd, over <= c.auditor.config.Slack, "sale %s: %s received waiting at %s, the sale ended at %s", o.Sale, o.User, clock(o.At), at(s.ends))
		}
		if before, known := last[w]; !known || !o.Sent.Before(before.At) {
			last[w] = o
		}
	}
	if !c.facts.Settled || !c.facts.Complete {
		return
	}
	for w, o := range last {
		ended := o.Action == calllog.Leave || o.Action == calllog.Buy || final(o.Reason) || o.State == "spent" || o.State == "passed" || o.State == "none"
		c.records.check(TicketsEnd, ended, "sale %s: the last response to %s was %d %s %s at %s", w.sale, w.user, o.Status, o.State, o.Reason, clock(o.At))
	}
}

// final reports whether a refusal ends a ticket.
func final(reason string) bool {
	switch reason {
	case "sold_out", "ended", "per_user", "all_taken", "few_left", "turn_passed":
		return true
	}
	return false
}
