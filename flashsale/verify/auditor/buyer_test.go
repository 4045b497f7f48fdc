package auditor_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
)

// A buyer of a theatre. Some have a part: the first does not pay in time, the second lets a
// turn pass, the third steals the token that the second lets lie, the fifth forges, the sixth
// claims to be another.
type buyer struct {
	*theatre
	n    int
	user string // of the session
	as   string // whom the shop believes it to be
}

const (
	latePayer = iota
	laggard
	thief
	_
	forger
	claimer
)

func (th *theatre) buyer(n int) *buyer {
	b := &buyer{theatre: th, n: n, user: fmt.Sprintf("user-%02d", n)}
	b.as = b.user
	if th.cast.identity != nil {
		header := ""
		if n == claimer {
			header = "user-victim"
		}
		b.as = th.cast.identity(b.user, header)
	}
	return b
}

func (b *buyer) noteTurn(action auditor.Action, trick auditor.Trick, sent time.Time, t sale.QueueStatus, err error) {
	o := auditor.Observation{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: action, Status: status(t.Reason, err), Layer: string(t.Layer),
		Reason: string(t.Reason), State: string(t.State), Place: t.Ticket, Ahead: t.Ahead, Poll: t.Poll.Milliseconds(), Until: t.Until, Trick: trick}
	if t.Token != "" {
		o.Token = t.Token // whole, so that a thief can take it
	}
	b.note(o)
}

func (b *buyer) join(ctx context.Context, trick auditor.Trick) sale.QueueStatus {
	sent := time.Now()
	t, err := b.desk.Join(ctx, b.as, b.sale.ID, "")
	b.noteTurn(auditor.Join, trick, sent, t, err)
	return t
}

// turn asks until there is a token, or none to be had.
func (b *buyer) turn(ctx context.Context) (sale.QueueStatus, bool) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		sent := time.Now()
		t, err := b.desk.Status(ctx, b.as, b.sale.ID, "")
		b.noteTurn(auditor.Turn, auditor.Honest, sent, t, err)
		switch {
		case t.Token != "":
			return t, true
		case t.State == sale.Spent || t.Reason == sale.PerUserLimit || t.Reason == sale.IsSoldOut || t.Reason == sale.HasEnded:
			return t, false
		case t.State == sale.TicketExpired || t.State == sale.NoTicket:
			b.join(ctx, auditor.Honest)
		}
		wait(ctx, max(20*time.Millisecond, min(t.Poll, 500*time.Millisecond)))
	}
	b.leave()
	return sale.QueueStatus{}, false
}

func (b *buyer) leave() {
	b.note(auditor.Observation{Sent: time.Now(), At: time.Now(), User: b.user, Sale: b.sale.ID, Action: auditor.Leave})
}

func (b *buyer) buy(ctx context.Context, token, key string, trick auditor.Trick) sale.BuyResult {
	sent := time.Now()
	got, err := b.desk.Buy(ctx, b.as, b.sale.ID, token, key)
	o := auditor.Observation{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: auditor.Buy, Status: status(got.Reason, err), Layer: string(got.Layer),
		Reason: string(got.Reason), Token: token, Key: key, Trick: trick, Receipt: got.Receipt.Receipt}
	if o.Status == 200 {
		o.Status, o.State, o.Granted, o.Body = 202, string(got.Receipt.State), got.Receipt.At, receiptBody(got.Receipt)
	}
	b.note(o)
	return got
}

// shop gets the buyer a unit, or the word that there is none.
func (b *buyer) shop(ctx context.Context) {
	t, admitted := b.turn(ctx)
	if !admitted {
		return
	}
	switch b.n {
	case laggard:
		wait(ctx, time.Until(t.Until)+10*time.Millisecond)
		b.buy(ctx, t.Token, "", auditor.Late)
		b.join(ctx, auditor.Honest)
		if t, admitted = b.turn(ctx); !admitted {
			return
		}
	case thief:
		stolen := b.tokenOf(laggard)
		for end := time.Now().Add(time.Second); stolen == "" && time.Now().Before(end); stolen = b.tokenOf(laggard) {
			wait(ctx, 10*time.Millisecond)
		}
		b.buy(ctx, stolen, "", auditor.Stolen)
	case forger:
		b.buy(ctx, t.Token[:len(t.Token)-4]+"AAAA", "", auditor.Forged)
	}
	key := fmt.Sprintf("key-%d", b.n)
	var clicks sync.WaitGroup
	var got [2]sale.BuyResult
	for i := range got { // a double click
		clicks.Go(func() { got[i] = b.buy(ctx, t.Token, key, auditor.Honest) })
	}
	clicks.Wait()
	b.buy(ctx, t.Token, "", auditor.Replayed)
	b.buy(ctx, t.Token, key, auditor.Honest) // the page was loaded again
	if receipt := got[0].Receipt.Receipt; receipt != "" {
		b.pay(ctx, receipt)
	}
}

// tokenOf is the last token that another buyer was seen with.
func (th *theatre) tokenOf(n int) string {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.tokens[th.buyer(n).user]
}

func (b *buyer) look(ctx context.Context, receipt string) sale.OrderState {
	sent := time.Now()
	r, err := b.desk.Order(ctx, b.as, receipt)
	b.note(auditor.Observation{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: auditor.Look, Status: status(sale.OK, err),
		State: string(r.State), Receipt: receipt})
	return r.State
}

// pay waits for the order and pays it, or not; the late one when its time is over.
func (b *buyer) pay(ctx context.Context, receipt string) {
	for range 100 {
		if state := b.look(ctx, receipt); state != sale.Reserved && state != "" {
			break
		}
		wait(ctx, 50*time.Millisecond)
	}
	if b.n == latePayer {
		for range 100 {
			if b.look(ctx, receipt) != sale.PendingPay {
				break
			}
			wait(ctx, 100*time.Millisecond)
		}
	}
	sent, payment := time.Now(), fmt.Sprintf("payment-%d", b.n)
	p, err := b.desk.Pay(ctx, receipt, payment, b.sale.Price)
	o := auditor.Observation{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: auditor.Pay, Status: status(sale.OK, err), State: string(p.Order.State),
		Receipt: receipt, Payment: payment}
	if err == nil && p.RefundDue {
		o.Status, o.Reason = 409, "refund_due"
	}
	b.note(o)
	b.look(ctx, receipt)
}
