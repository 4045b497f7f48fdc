package auditor

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

func keysOf[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// tokens checks that a token was used by whom it was given to, once, and in its time.
func (j *judge) tokens() {
	type gift struct {
		who
		until time.Time
	}
	given := map[string]gift{}
	for _, o := range j.seen {
		if (o.Action == Join || o.Action == Turn) && o.Token != "" && ok(o.Status) {
			w := who{o.Sale, o.User}
			g, again := given[o.Token]
			j.b.check(Tokens, !again || g.who == w, "sale %s: one token was given to %s and to %s", o.Sale, g.user, o.User)
			given[o.Token] = gift{w, o.Until}
		}
	}
	used := map[string]Observation{}
	for _, o := range j.seen {
		if o.Action != Buy || o.Token == "" || !ok(o.Status) {
			continue
		}
		if g, known := given[o.Token]; known {
			j.b.check(Tokens, g.who == who{o.Sale, o.User}, "sale %s: %s bought with a token that was given to %s for sale %s", o.Sale, o.User, g.user, g.sale)
			if !o.Granted.IsZero() && !g.until.IsZero() {
				j.b.check(Tokens, !o.Granted.After(g.until), "sale %s: %s was granted a unit at %s with a token until %s", o.Sale, o.User, clock(o.Granted), clock(g.until))
			}
		} else if j.f.Complete {
			j.b.check(Tokens, false, "sale %s: %s bought with a token that was given to nobody", o.Sale, o.User)
		}
		if f, again := used[o.Token]; again {
			j.b.check(Tokens, f.Receipt == o.Receipt, "sale %s: one token bought %s and then %s", o.Sale, j.reservation(f.Receipt), j.reservation(o.Receipt))
		} else {
			used[o.Token] = o
		}
	}
}

// tricks checks that what was wrong on purpose was refused.
func (j *judge) tricks() {
	first := map[string]string{} // by token: the receipt
	for _, o := range j.seen {
		if o.Action == Buy && o.Trick == Honest && ok(o.Status) && o.Token != "" {
			first[o.Token] = o.Receipt
		}
	}
	for _, o := range j.seen {
		name := Tokens
		switch o.Trick {
		case Honest:
			continue
		case Early, Late:
			if o.Token == "" {
				name = InTime
			}
		}
		refused := o.Status >= 400 && o.Status < 500 || o.Status == 503
		switch {
		case o.Status == 0:
		case o.Trick == Replayed:
			j.b.check(name, refused || o.Receipt != "" && o.Receipt == first[o.Token], "sale %s: %s used a token again, and was answered %d with %s instead of %s",
				o.Sale, o.User, o.Status, j.reservation(o.Receipt), j.reservation(first[o.Token]))
		case o.Trick == Early && o.Action == Join && ok(o.Status):
			// One may join before the start where there is a lobby, but gets no token.
			j.b.check(name, o.Token == "", "sale %s: %s was given a token before the start", o.Sale, o.User)
		default:
			j.b.check(name, refused, "sale %s: %s of %s was %s, and was answered %d", o.Sale, o.Action, o.User, o.Trick, o.Status)
		}
	}
}

// A given is an admission token that was out: from the moment at which it was given, which
// is as long before its end as the sale says, until it was used or over.
type given struct {
	from, to int64
	epoch    int64
}

// tokensOut counts how many tokens were out at once. With an epoch its tokens are over: when
// one of a later epoch was given, those of the earlier can buy nothing any more.
func (j *judge) tokensOut() {
	for id, tokens := range j.given() {
		s := j.l.sale(id)
		began := map[int64]int64{} // of an epoch: when its first token was given
		for _, t := range tokens {
			if first, known := began[t.epoch]; !known || t.from < first {
				began[t.epoch] = t.from
			}
		}
		type event struct{ at, more int64 }
		var events []event
		for _, t := range tokens {
			for epoch, first := range began {
				if t.epoch > 0 && epoch > t.epoch && t.from < first { // one that is given later is no old one's rest
					t.to = min(t.to, first)
				}
			}
			events = append(events, event{t.from, 1}, event{t.to, -1})
		}
		slices.SortFunc(events, func(x, y event) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.more, y.more)) })
		var out int64
		for _, e := range events {
			if out += e.more; e.more > 0 {
				j.b.check(Bounded, out <= s.headroom*s.stock, "sale %s: %d admission tokens were out at %s, at most %d × %d may be",
					id, out, at(e.at), s.headroom, s.stock)
			}
		}
	}
}

// given are the tokens that were given, by sale and token.
func (j *judge) given() map[string]map[string]*given {
	tokens := map[string]map[string]*given{}
	for _, o := range j.seen {
		s := j.l.sale(o.Sale)
		switch {
		case s == nil || o.Token == "" || !ok(o.Status):
		case (o.Action == Join || o.Action == Turn) && !o.Until.IsZero():
			if tokens[o.Sale] == nil {
				tokens[o.Sale] = map[string]*given{}
			}
			until := o.Until.UnixMilli()
			tokens[o.Sale][o.Token] = &given{from: until - s.tokenFor, to: until, epoch: o.Epoch}
		case o.Action == Buy && !o.Granted.IsZero():
			if t := tokens[o.Sale][o.Token]; t != nil {
				t.to = min(t.to, o.Granted.UnixMilli())
			}
		}
	}
	return tokens
}

// tickets checks that every ticket came to an end that its holder knows.
func (j *judge) tickets() {
	last := map[who]Observation{}
	for _, o := range j.seen {
		if o.User == "" || o.Trick != Honest || unclear(o.Status) && o.Action != Leave {
			continue
		}
		switch o.Action {
		case Join, Turn, Leave:
		case Buy:
			if !ok(o.Status) && !final(o.Reason) {
				continue
			}
		default:
			continue
		}
		w := who{o.Sale, o.User}
		s := j.l.sale(o.Sale)
		if s == nil {
			continue
		}
		if ok(o.Status) && o.State == "admitted" && !o.Until.IsZero() {
			over := o.Sent.Sub(o.Until)
			j.b.check(TicketsEnd, over <= j.a.config.Slack, "sale %s: %s was told to be admitted until %s at %s", o.Sale, o.User, clock(o.Until), clock(o.At))
		}
		if ok(o.Status) && o.State == "waiting" {
			over := o.Sent.Sub(time.UnixMilli(s.ends))
			j.b.check(TicketsEnd, over <= j.a.config.Slack, "sale %s: %s was told to wait at %s, and the sale ended at %s", o.Sale, o.User, clock(o.At), at(s.ends))
		}
		if before, known := last[w]; !known || !o.Sent.Before(before.At) {
			last[w] = o
		}
	}
	if !j.f.Settled || !j.f.Complete {
		return
	}
	for w, o := range last {
		ended := o.Action == Leave || o.Action == Buy || final(o.Reason) || o.State == "spent" || o.State == "passed" || o.State == "none"
		j.b.check(TicketsEnd, ended, "sale %s: the last that %s heard was %d %s %s at %s", w.sale, w.user, o.Status, o.State, o.Reason, clock(o.At))
	}
}

// final reports whether a refusal is the end of a ticket.
func final(reason string) bool {
	switch reason {
	case "sold_out", "ended", "per_user", "all_taken", "turn_passed":
		return true
	}
	return false
}
