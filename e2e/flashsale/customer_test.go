package flashsale_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// An end is the way in which a customer ends its order.
type end int

const (
	pays end = iota
	cancels
	expires // lets it expire
)

// A customer buys through the HTTP API, records observations, and continues through faults of
// the shop.
type customer struct {
	User        string
	Base        *atomic.Pointer[string] // the current URL of the shop
	Sale        string
	Ends        end
	From        string // its client address, which the shop trusts
	Log         *calllog.Log
	Quantity    int             // the units that it wants in one order, fewer if fewer are left; 0 for 1
	Held        *heldPayment    // holds its payment back; nil to pay at once
	Has         func()          // called when it has a unit
	Answer      func(time.Time) // called after a response
	Unavailable func(error)     // called after a call without a response

	client *http.Client
	place  string
	layer  string // that refused the last call
	after  string // Retry-After of the last call
	ticket int    // number of its tickets
}

// The fields of API.md that a customer reads.
type (
	turnBody struct {
		State  string        `json:"state"`
		Ahead  int64         `json:"ahead"`
		Poll   int64         `json:"poll_after_ms"`
		Place  string        `json:"place"`
		Token  string        `json:"token"`
		Until  time.Time     `json:"until"`
		Held   []receiptBody `json:"held"`
		Reason string        `json:"reason"`
		Retry  int64         `json:"retry_after_ms"`
	}
	receiptBody struct {
		Receipt string    `json:"receipt"`
		State   string    `json:"state"`
		At      time.Time `json:"at"`
		PayBy   time.Time `json:"pay_by"`
		Price   int64     `json:"price"`
		Refunds int       `json:"refunds"`
		Reason  string    `json:"reason"`
		Retry   int64     `json:"retry_after_ms"`
		Left    int       `json:"left"`
	}
)

// enter requests a session.
func (c *customer) enter(ctx context.Context) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	c.client = &http.Client{Jar: jar, Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2}}
	for {
		var me struct{ User string }
		status, _, err := c.call(ctx, http.MethodPost, "/api/session", nil, nil, &me)
		if err == nil && status >= 200 && status < 300 {
			c.User = me.User
			return nil
		}
		if err := c.pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// call makes a call. It returns status 0 and no error if the shop does not respond.
func (c *customer) call(ctx context.Context, method, path string, header http.Header, body, into any) (int, []byte, error) {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, *c.Base.Load()+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("Flashsale-Request", "1")
	if c.From != "" {
		r.Header.Set("X-Forwarded-For", c.From)
	}
	if body != nil || method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(r)
	if err == nil {
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
	}
	if err != nil {
		if c.Unavailable != nil {
			c.Unavailable(err)
		}
		return 0, nil, ctx.Err()
	}
	c.layer, c.after = res.Header.Get("Flashsale-Layer"), res.Header.Get("Retry-After")
	if c.Answer != nil && res.StatusCode < 500 {
		c.Answer(time.Now())
	}
	if into != nil && json.Unmarshal(text, into) != nil {
		return res.StatusCode, text, fmt.Errorf("%s %s: %d: %q is not JSON", method, path, res.StatusCode, text)
	}
	return res.StatusCode, text, nil
}

// pause waits about d.
func (c *customer) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(20*time.Millisecond, min(d, time.Second)) + time.Duration(rand.Int64N(int64(20*time.Millisecond))))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// shop runs until the customer has paid a unit, has given one up, or has received a final
// refusal. A customer that pays too late queues again. shop returns the last state of the unit,
// or "" without one.
func (c *customer) shop(ctx context.Context) (string, error) {
	if err := c.enter(ctx); err != nil {
		return "", err
	}
	defer c.client.CloseIdleConnections()
	for {
		var t turnBody
		sent := time.Now()
		status, body, err := c.call(ctx, http.MethodPost, "/api/sales/"+c.Sale+"/ticket", nil, map[string]string{"place": c.place}, &t)
		if err != nil {
			return "", err
		}
		if t.Place != "" {
			c.place = t.Place
		}
		o := calllog.Call{Sent: sent, At: time.Now(), User: c.User, Sale: c.Sale, Action: calllog.Join, Status: status,
			Layer: c.layer, Reason: t.Reason, State: t.State, Rank: calllog.RankOf(t.Place), Ahead: t.Ahead, Poll: t.Poll, Body: calllog.Digest(body)}
		if t.Token != "" {
			o.Token, o.Until, o.Epoch = calllog.Digest([]byte(t.Token)), t.Until, calllog.EpochOf(t.Token)
		}
		c.Log.Record(o)
		switch {
		case len(t.Held) > 0:
			if state, err := c.settle(ctx, t.Held[0]); err != nil || state != "expired" && state != "lost" || c.Ends != pays {
				return state, err
			}
		case t.Reason == "sold_out" || t.Reason == "ended" || t.Reason == "per_user":
			return c.last(ctx)
		case t.Token != "":
			r, done, err := c.buy(ctx, t.Token)
			if err != nil {
				return "", err
			}
			if !done {
				break
			}
			if state, err := c.settle(ctx, r); err != nil || state != "expired" && state != "lost" || c.Ends != pays {
				return state, err
			}
		}
		if err := c.pause(ctx, time.Duration(max(t.Poll, t.Retry))*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// buy repeats a purchase until its response is final.
func (c *customer) buy(ctx context.Context, token string) (receiptBody, bool, error) {
	c.ticket++
	key := fmt.Sprintf("%s-%d", c.User, c.ticket)
	for {
		var r receiptBody
		sent := time.Now()
		status, body, err := c.call(ctx, http.MethodPost, "/api/sales/"+c.Sale+"/orders",
			http.Header{"Idempotency-Key": {key}}, map[string]any{"token": token, "quantity": max(1, c.Quantity)}, &r)
		if err != nil {
			return r, false, err
		}
		c.Log.Record(calllog.Call{Sent: sent, At: time.Now(), User: c.User, Sale: c.Sale, Action: calllog.Buy, Status: status,
			Layer: c.layer, Reason: r.Reason, State: r.State, Token: calllog.Digest([]byte(token)), Key: key,
			Receipt: r.Receipt, Granted: r.At, Body: calllog.Digest(body)})
		switch {
		case status == http.StatusAccepted:
			return r, true, nil
		case r.Reason == "few_left":
			c.Quantity = max(1, min(c.Quantity-1, r.Left))
			return r, false, nil // the ticket is still admitted
		case status != 0 && status < 500 && status != http.StatusTooManyRequests:
			return r, false, nil // refused: queue again
		}
		if err := c.pause(ctx, time.Duration(r.Retry)*time.Millisecond); err != nil {
			return r, false, err
		}
	}
}

// settle pays, cancels or abandons the order, and waits for its final state.
func (c *customer) settle(ctx context.Context, r receiptBody) (string, error) {
	if c.Has != nil {
		c.Has()
	}
	path := "/api/orders/" + r.Receipt
	asked := false
	for {
		var now receiptBody
		if c.Held != nil && r.State == "pending_pay" {
			if err := c.Held.wait(ctx); err != nil {
				return "", err
			}
		}
		sent := time.Now()
		action, method, call, payment := calllog.Look, http.MethodGet, path, ""
		var body any
		switch {
		case asked || c.Ends == expires || r.State != "pending_pay":
		case c.Ends == pays:
			id := fmt.Sprintf("p-%s-%d", c.User, c.ticket) // another one for each order
			payment = "mock-" + id
			action, method, call, body = calllog.Pay, http.MethodPost, path+"/pay", map[string]any{"payment": id}
		case c.Ends == cancels:
			action, method, call = calllog.Cancel, http.MethodPost, path+"/cancel"
		}
		status, text, err := c.call(ctx, method, call, nil, body, &now)
		if err != nil {
			return "", err
		}
		c.Log.Record(calllog.Call{Sent: sent, At: time.Now(), User: c.User, Sale: c.Sale, Action: action, Status: status,
			Layer: c.layer, Reason: now.Reason, State: now.State, Receipt: r.Receipt, Payment: payment, Body: calllog.Digest(text)})
		if c.Held != nil && action == calllog.Pay {
			c.Held.answers = append(c.Held.answers, payAnswer{at: time.Now(), status: status, again: status != 0 && c.after != "", state: now.State})
		}
		if status != 0 && status < 500 && status != http.StatusTooManyRequests {
			asked = action != calllog.Look
			if now.State != "" {
				r.State = now.State
			}
		}
		switch r.State {
		case "paid", "expired", "cancelled", "rejected", "lost":
			return r.State, nil
		}
		if err := c.pause(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// last returns the state of the customer's newest order.
func (c *customer) last(ctx context.Context) (string, error) {
	for {
		var mine struct{ Orders []receiptBody }
		status, _, err := c.call(ctx, http.MethodGet, "/api/orders", nil, nil, &mine)
		if err != nil {
			return "", err
		}
		if status == http.StatusOK {
			if len(mine.Orders) == 0 {
				return "", nil
			}
			return strings.TrimSpace(mine.Orders[0].State), nil
		}
		if err := c.pause(ctx, 100*time.Millisecond); err != nil {
			return "", err
		}
	}
}
