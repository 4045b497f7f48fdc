package auditor_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// A buyer is a user of a scenario. Some misbehave: one pays late, one lets its admission expire
// and another one uses that token, one forges a token, one claims to be another user.
type buyer struct {
	*scenario
	n    int
	user string // of the session
	as   string // the user that the shop assumes
}

const (
	latePayer = iota
	lateBuyer
	tokenStealer
	_
	forger
	impersonator
)

func (s *scenario) buyer(n int) *buyer {
	b := &buyer{scenario: s, n: n, user: fmt.Sprintf("user-%02d", n)}
	b.as = b.user
	if s.actors.identity != nil {
		header := ""
		if n == impersonator {
			header = "user-victim"
		}
		b.as = s.actors.identity(b.user, header)
	}
	return b
}

func (b *buyer) recordStatus(action calllog.Action, misuse calllog.Misuse, sent time.Time, t sale.QueueStatus, err error) {
	o := calllog.Call{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: action, Status: status(t.Reason, err), Layer: string(t.Layer),
		Reason: string(t.Reason), State: string(t.State), Ticket: t.Ticket, Ahead: t.Ahead, Poll: t.Poll.Milliseconds(), Until: t.Until, Misuse: misuse}
	if t.Token != "" {
		o.Token = t.Token // not a digest, so that another buyer can use it
	}
	b.record(o)
}

func (b *buyer) join(ctx context.Context, misuse calllog.Misuse) sale.QueueStatus {
	sent := time.Now()
	t, err := b.service.Join(ctx, b.as, b.sale.ID, "")
	b.recordStatus(calllog.Join, misuse, sent, t, err)
	return t
}

// awaitToken polls until the buyer has a token or a final refusal.
func (b *buyer) awaitToken(ctx context.Context) (sale.QueueStatus, bool) {
	for end := time.Now().Add(buyerTimeout); time.Now().Before(end); {
		sent := time.Now()
		t, err := b.service.Status(ctx, b.as, b.sale.ID, "")
		b.recordStatus(calllog.Poll, calllog.Valid, sent, t, err)
		switch {
		case t.Token != "":
			return t, true
		case t.State == sale.Spent || t.Reason == sale.PerUserLimit || t.Reason == sale.IsSoldOut || t.Reason == sale.HasEnded:
			return t, false
		case t.State == sale.TicketExpired || t.State == sale.NoTicket:
			b.join(ctx, calllog.Valid)
		}
		wait(ctx, max(20*time.Millisecond, min(t.Poll, 500*time.Millisecond)))
	}
	b.leave()
	return sale.QueueStatus{}, false
}

func (b *buyer) leave() {
	b.record(calllog.Call{Sent: time.Now(), At: time.Now(), User: b.user, Sale: b.sale.ID, Action: calllog.Leave})
}

func (b *buyer) buy(ctx context.Context, token, key string, misuse calllog.Misuse) sale.BuyResult {
	sent := time.Now()
	got, err := b.service.Buy(ctx, b.as, b.sale.ID, token, key)
	o := calllog.Call{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: calllog.Buy, Status: status(got.Reason, err), Layer: string(got.Layer),
		Reason: string(got.Reason), Token: token, Key: key, Misuse: misuse, Receipt: got.Receipt.Receipt}
	if o.Status == 200 {
		o.Status, o.State, o.Granted, o.Body = 202, string(got.Receipt.State), got.Receipt.At, receiptBody(got.Receipt)
	}
	b.record(o)
	return got
}

// shop buys a unit, or stops at a final refusal.
func (b *buyer) shop(ctx context.Context) {
	t, admitted := b.awaitToken(ctx)
	if !admitted {
		return
	}
	switch b.n {
	case lateBuyer:
		wait(ctx, time.Until(t.Until)+10*time.Millisecond)
		b.buy(ctx, t.Token, "", calllog.Late)
		b.join(ctx, calllog.Valid)
		if t, admitted = b.awaitToken(ctx); !admitted {
			return
		}
	case tokenStealer:
		stolen := b.tokenOf(lateBuyer)
		for end := time.Now().Add(time.Second); stolen == "" && time.Now().Before(end); stolen = b.tokenOf(lateBuyer) {
			wait(ctx, 10*time.Millisecond)
		}
		b.buy(ctx, stolen, "", calllog.Stolen)
	case forger:
		b.buy(ctx, t.Token[:len(t.Token)-4]+"AAAA", "", calllog.Forged)
	}
	key := fmt.Sprintf("key-%d", b.n)
	var clicks sync.WaitGroup
	var got [2]sale.BuyResult
	for i := range got { // a double click
		clicks.Go(func() { got[i] = b.buy(ctx, t.Token, key, calllog.Valid) })
	}
	clicks.Wait()
	b.buy(ctx, t.Token, "", calllog.Replayed)
	b.buy(ctx, t.Token, key, calllog.Valid) // a reload of the page
	if receipt := got[0].Receipt.Receipt; receipt != "" {
		b.pay(ctx, receipt)
	}
}

// tokenOf returns the last token that another buyer received.
func (s *scenario) tokenOf(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[s.buyer(n).user]
}

func (b *buyer) look(ctx context.Context, receipt string) sale.OrderState {
	sent := time.Now()
	r, err := b.service.Order(ctx, b.as, receipt)
	b.record(calllog.Call{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: calllog.Look, Status: status(sale.OK, err),
		State: string(r.State), Receipt: receipt})
	return r.State
}

// pay waits for the order and pays it; the late payer pays after it expired.
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
	p, err := b.service.Pay(ctx, receipt, payment, b.sale.Price)
	o := calllog.Call{Sent: sent, At: time.Now(), User: b.user, Sale: b.sale.ID, Action: calllog.Pay, Status: status(sale.OK, err), State: string(p.Order.State),
		Receipt: receipt, Payment: payment}
	if err == nil && p.RefundDue {
		o.Status, o.Reason = 409, "refund_due"
	}
	b.record(o)
	b.look(ctx, receipt)
}
