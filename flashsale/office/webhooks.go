package office

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/webhook"
	"github.com/floodweir/weir/flashsale/wire"
)

type endpointJSON struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Disabled string `json:"disabled"`
	At       string `json:"at"`
	Pending  int64  `json:"pending"`
	Dead     int64  `json:"dead"`
	Secret   string `json:"secret,omitempty"` // only once, in the response that creates it
}

func endpointOf(e *webhook.Endpoint) endpointJSON {
	j := endpointJSON{e.ID, e.URL, e.Disabled, moment(e.CreatedAt), e.Pending, e.Dead, ""}
	if len(e.Secrets) > 0 {
		j.Secret = e.Secrets[0]
	}
	return j
}

type deliveryJSON struct {
	ID       string          `json:"id"`
	Type     webhook.Type    `json:"type"`
	Subject  string          `json:"subject"`
	Seq      int64           `json:"seq"`
	State    webhook.State   `json:"state"`
	Attempts int             `json:"attempts"`
	At       string          `json:"at"`
	Due      string          `json:"due"`
	Body     json.RawMessage `json:"body"`
}

func deliveryOf(d *webhook.Delivery) deliveryJSON {
	return deliveryJSON{d.Event, d.Type, d.Subject, d.Seq, d.State, d.Attempts, moment(d.At), moment(d.Due), json.RawMessage(d.Body)}
}

type attemptJSON struct {
	At       string `json:"at"`
	Status   int    `json:"status"`
	Duration int64  `json:"duration_ms"`
	Error    string `json:"error"`
	Response string `json:"response"`
}

// webhooks serves the endpoints of merchants and their deliveries.
type webhooks struct {
	*Office
	store webhook.Store
}

// routes adds the routes of the endpoints of a merchant.
func (o webhooks) routes(handle func(pattern string, f func(*visit))) {
	handle("GET /api/webhooks", o.endpoints)
	handle("POST /api/webhooks", o.addEndpoint)
	handle("POST /api/webhooks/{endpoint}/rotate", o.rotateSecret)
	for name, why := range map[string]string{"enable": "", "disable": webhook.ByMerchant} {
		handle("POST /api/webhooks/{endpoint}/"+name, o.onEndpoint(func(v *visit, id string) error {
			return o.store.SetDisabled(v.r.Context(), v.merchant, id, why)
		}))
	}
	handle("POST /api/webhooks/{endpoint}/remove", o.onEndpoint(func(v *visit, id string) error {
		return o.store.RemoveEndpoint(v.r.Context(), v.merchant, id)
	}))
	handle("GET /api/webhooks/{endpoint}/events", o.deliveries)
	handle("GET /api/webhooks/{endpoint}/events/{event}", o.attempts)
	handle("POST /api/webhooks/{endpoint}/events/{event}/replay", o.onEndpoint(func(v *visit, id string) error {
		return o.store.Replay(v.r.Context(), v.merchant, id, v.r.PathValue("event"), o.c.Clock())
	}))
	handle("POST /api/webhooks/{endpoint}/events/{event}/skip", o.onEndpoint(func(v *visit, id string) error {
		return o.store.Skip(v.r.Context(), v.merchant, id, v.r.PathValue("event"), o.c.Clock())
	}))
	handle("POST /api/webhooks/{endpoint}/replay", o.replaySince)
}

// onEndpoint returns the handler of a change without a body.
func (o webhooks) onEndpoint(f func(v *visit, endpoint string) error) func(*visit) {
	return func(v *visit) {
		if v.emptyBody() {
			o.send(v, http.StatusOK, struct{}{}, f(v, v.r.PathValue("endpoint")))
		}
	}
}

func (o webhooks) endpoints(v *visit) {
	list, err := o.store.Endpoints(v.r.Context(), v.merchant)
	all := make([]endpointJSON, 0, len(list))
	for i := range list {
		all = append(all, endpointOf(&list[i]))
	}
	o.send(v, http.StatusOK, map[string]any{"endpoints": all}, err)
}

func (o webhooks) addEndpoint(v *visit) {
	var url string
	if !v.decode(wire.Member{Name: "url", Text: &url}) {
		return
	}
	e, err := o.store.AddEndpoint(v.r.Context(), v.merchant, url, signing.New().Text(), o.c.Clock())
	o.send(v, http.StatusCreated, endpointOf(&e), err)
}

func (o webhooks) rotateSecret(v *visit) {
	keep := webhook.RotateFor.Milliseconds()
	if !v.decode(wire.Member{Name: "keep_ms", Num: &keep, Max: (30 * 24 * time.Hour).Milliseconds()}) {
		return
	}
	secret := signing.New().Text()
	err := o.store.RotateSecret(v.r.Context(), v.merchant, v.r.PathValue("endpoint"), secret, o.c.Clock().Add(time.Duration(keep)*time.Millisecond))
	o.send(v, http.StatusOK, map[string]string{"secret": secret}, err)
}

func (o webhooks) deliveries(v *visit) {
	q := v.r.URL.Query()
	f := webhook.Filter{State: webhook.State(q.Get("state")), Type: webhook.Type(q.Get("type")), Subject: q.Get("subject"), After: q.Get("after")}
	var bad *wire.RequestError
	switch {
	case f.State != "" && !slices.Contains(webhook.States(), f.State):
		bad = &wire.RequestError{Field: "state", Detail: fmt.Sprintf("state: got %.70q, want one of %v", f.State, webhook.States())}
	case f.Type != "" && !slices.Contains(webhook.Types(), f.Type):
		bad = &wire.RequestError{Field: "type", Detail: fmt.Sprintf("type: got %.70q, want one of %v", f.Type, webhook.Types())}
	}
	if bad != nil {
		bad.Refuse(v.w)
		return
	}
	list, err := o.store.Deliveries(v.r.Context(), v.merchant, v.r.PathValue("endpoint"), f)
	all := make([]deliveryJSON, 0, len(list))
	for i := range list {
		all = append(all, deliveryOf(&list[i]))
	}
	o.send(v, http.StatusOK, map[string]any{"events": all}, err)
}

func (o webhooks) attempts(v *visit) {
	d, list, err := o.store.Attempts(v.r.Context(), v.merchant, v.r.PathValue("endpoint"), v.r.PathValue("event"))
	all := make([]attemptJSON, 0, len(list))
	for _, a := range list {
		all = append(all, attemptJSON{moment(a.At), a.Status, millis(a.Duration), a.Error, a.Response})
	}
	o.send(v, http.StatusOK, map[string]any{"event": deliveryOf(&d), "attempts": all}, err)
}

func (o webhooks) replaySince(v *visit) {
	var text string
	if !v.decode(wire.Member{Name: "since", Text: &text}) {
		return
	}
	since, f := instant("since", text)
	if f != nil {
		f.Refuse(v.w)
		return
	}
	n, err := o.store.ReplaySince(v.r.Context(), v.merchant, v.r.PathValue("endpoint"), since, o.c.Clock())
	o.send(v, http.StatusOK, map[string]int64{"events": n}, err)
}
